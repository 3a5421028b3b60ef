#include "engine/engine_file.h"
#include "source_digest.h"

namespace sardonyx::engine {

std::string BuildName() { return SARDONYX_VERSION "+" SARDONYX_SOURCE_DIGEST; }

}  // namespace sardonyx::engine
