#include "kernels/conv.h"

#include "kernels/conv_internal.h"
#include "kernels/scratch_slots.h"
#include "kernels/transpose.h"

namespace sardonyx {

namespace {

// In the order of ConvAlgorithm.
const ConvMethod& MethodOf(ConvAlgorithm algorithm) {
  static constexpr const ConvMethod* kBeforeWinograd[] = {
      &kConvGemm,   &kConvTaps,   &kConvDepthwise, &kConvGroups,
      &kConvPhases, &kConvStrips, &kConvLines};
  const auto index = static_cast<size_t>(algorithm);
  constexpr size_t kCount = std::size(kBeforeWinograd);
  return index < kCount ? *kBeforeWinograd[index] : kConvWinograd[index - kCount];
}

// What a method sees: planes that it does not take are turned to pixels before.
ConvShape SeenBy(const ConvMethod& method, ConvShape s) {
  s.x_planes = s.x_planes && method.takes_planes(s);
  return s;
}

// Bytes of the input's pixels, where they have to be made of planes.
size_t TurnedBytes(const ConvMethod& method, const ConvShape& s) {
  if (s.x_planes == SeenBy(method, s).x_planes) return 0;
  return AlignBytes(FloatBytes(s.InPixels() * s.cin));
}

}  // namespace

void TurnPlanes(const ConvShape& s, const float* x, int64_t image, int64_t first, int64_t end,
                float* to) {
  const int64_t plane = s.in[0] * s.in[1] * s.in[2];
  TransposeMatrix(x + image * s.cin * plane + first, plane, to, s.cin, end - first, s.cin,
                  sizeof(float));
}

std::string_view ConvRefusal(ConvAlgorithm algorithm, const ConvShape& shape) {
  return MethodOf(algorithm).refusal(shape);
}

ConvAlgorithm ChooseConv(const ConvShape& shape, bool allow_winograd) {
  ConvAlgorithm best = ConvAlgorithm::kGemm;
  double least = kConvGemm.cost(shape);
  for (int i = 1; i < kConvAlgorithmCount; ++i) {
    const auto algorithm = static_cast<ConvAlgorithm>(i);
    const ConvMethod& method = MethodOf(algorithm);
    if ((IsWinograd(algorithm) && !allow_winograd) || !method.refusal(shape).empty()) continue;
    const double cost = method.cost(shape);
    if (cost < least) best = algorithm, least = cost;
  }
  return best;
}

size_t ConvPackedBytes(ConvAlgorithm algorithm, const ConvShape& shape) {
  const ConvMethod& method = MethodOf(algorithm);
  return method.packed_bytes(SeenBy(method, shape));
}

std::string_view ConvPackedForm(ConvAlgorithm algorithm, const ConvShape& shape) {
  const ConvMethod& method = MethodOf(algorithm);
  return method.packed_form(SeenBy(method, shape));
}

void ConvPack(ConvAlgorithm algorithm, const ConvShape& shape, const ConvWeightRows& rows,
              float* packed, const Parallel& par) {
  const ConvMethod& method = MethodOf(algorithm);
  method.pack(SeenBy(method, shape), rows, packed, par);
}

int64_t ConvPackStep(ConvAlgorithm algorithm, const ConvShape& shape) {
  const ConvMethod& method = MethodOf(algorithm);
  return method.pack_step(SeenBy(method, shape));
}

size_t ConvScratchBytes(ConvAlgorithm algorithm, const ConvShape& shape, int threads) {
  const ConvMethod& method = MethodOf(algorithm);
  const ConvShape seen = SeenBy(method, shape);
  return TurnedBytes(method, shape) + MostScratchBytes(threads, [&](int running) {
           return method.scratch_bytes(seen, running);
         });
}

bool ConvInPlace(ConvAlgorithm algorithm, const ConvShape& shape) {
  const ConvMethod& method = MethodOf(algorithm);
  return method.in_place(SeenBy(method, shape));
}

bool ConvCollides(ConvAlgorithm algorithm, const ConvShape& shape) {
  return !shape.x_planes && MethodOf(algorithm).collides(shape);
}

bool ConvReadsDense(ConvAlgorithm algorithm, const ConvShape& shape) {
  ConvShape dense = shape;
  dense.x_stride = shape.cin;
  return !shape.x_planes && MethodOf(algorithm).reads_dense(dense);
}

bool ConvByLines(ConvAlgorithm algorithm, const ConvShape& shape) {
  const ConvMethod& method = MethodOf(algorithm);
  return method.by_lines(SeenBy(method, shape));
}

void Conv(ConvAlgorithm algorithm, const ConvShape& shape, const float* x, const float* packed,
          float* y, const Epilogue& epilogue, void* scratch, const Parallel& par) {
  if (shape.OutPixels() == 0 || shape.cout == 0) return;
  const ConvMethod& method = MethodOf(algorithm);
  const size_t turned = TurnedBytes(method, shape);
  if (turned == 0) return method.run(shape, x, packed, y, epilogue, scratch, par);
  auto* const pixels = static_cast<float*>(scratch);
  const int64_t plane = shape.in[0] * shape.in[1] * shape.in[2];
  const int64_t parts = WantedTasks(0, 2 * static_cast<double>(turned));
  par.For(shape.batch * parts, [&](int64_t task) {
    const int64_t image = task / parts, part = task % parts;
    const int64_t first = plane * part / parts, end = plane * (part + 1) / parts;
    TurnPlanes(shape, x, image, first, end, pixels + (image * plane + first) * shape.cin);
  });
  method.run(SeenBy(method, shape), pixels, packed, y, epilogue,
             static_cast<std::byte*>(scratch) + turned, par);
}

}  // namespace sardonyx
