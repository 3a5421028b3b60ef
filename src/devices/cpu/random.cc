// Random numbers, drawn where they are wanted.

#include "devices/cpu/families.h"
#include "ops/random/draw.h"

namespace sardonyx::cpu {
namespace {

BindResult BindRandom(const BindRequest& request) {
  Bound bound;
  bound.run = [attributes = request.node.attributes, count = request.outputs[0].size()](
                  const StepArgs& args) { ops::DrawElements(attributes, count, args.out[0]); };
  return bound;
}

constexpr Implementation kList[] = {{"stream", BindRandom}};

}  // namespace

std::span<const Implementation> RandomList() { return kList; }

}  // namespace sardonyx::cpu
