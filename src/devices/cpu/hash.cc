#include "devices/cpu/families.h"
#include "kernels/murmur_hash.h"

namespace sardonyx::cpu {
namespace {

BindResult BindMurmurHash(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const Attributes& attributes = request.node.attributes;
  const auto seed = static_cast<uint32_t>(attributes.Int("seed"));
  Bound bound;
  if (x.dtype == DType::kString) {
    bound.run = [count = x.size(), seed](const StepArgs& args) {
      MurmurHash(static_cast<const std::string*>(args.in[0]), count, seed,
                 static_cast<uint32_t*>(args.out[0]), args.parallel);
    };
  } else {
    bound.run = [count = x.size(), words = BitWidth(x.dtype) / 32, seed](const StepArgs& args) {
      MurmurHash(static_cast<const uint32_t*>(args.in[0]), count, words, seed,
                 static_cast<uint32_t*>(args.out[0]), args.parallel);
    };
  }
  return bound;
}

constexpr Implementation kMurmurHash[] = {{"vectors", BindMurmurHash}};

}  // namespace

std::span<const Implementation> MurmurHashList() { return kMurmurHash; }

}  // namespace sardonyx::cpu
