#include "kernels/conv.h"

#include <algorithm>

#include "kernels/conv_internal.h"

namespace sardonyx {

namespace {

// One row an algorithm, in the order of ConvAlgorithm.
struct Entry {
  std::string_view (*refusal)(const ConvShape&);
  size_t (*packed_bytes)(const ConvShape&);
  std::string_view (*packed_form)(const ConvShape&);
  void (*pack)(const ConvShape&, const float*, float*, const Parallel&);
  size_t (*scratch_bytes)(const ConvShape&, int);
  void (*run)(const ConvShape&, const float*, const float*, float*, const Epilogue&, void*,
              const Parallel&);
};

std::string_view None(const ConvShape&) { return {}; }

template <WinogradForm kForm>
constexpr Entry WinogradEntry() {
  using Winograd = ConvWinograd<kForm>;
  return {Winograd::Refusal, Winograd::PackedBytes,  Winograd::PackedForm,
          Winograd::Pack,    Winograd::ScratchBytes, Winograd::Run};
}

constexpr Entry kEntries[kConvAlgorithmCount] = {
    {None, conv_gemm::PackedBytes, None, conv_gemm::Pack, conv_gemm::ScratchBytes, conv_gemm::Run},
    {conv_depthwise::Refusal, conv_depthwise::PackedBytes, None, conv_depthwise::Pack,
     conv_depthwise::ScratchBytes, conv_depthwise::Run},
    {conv_phases::Refusal, conv_phases::PackedBytes, None, conv_phases::Pack,
     conv_phases::ScratchBytes, conv_phases::Run},
    {conv_strips::Refusal, conv_strips::PackedBytes, None, conv_strips::Pack,
     conv_strips::ScratchBytes, conv_strips::Run},
    {conv_lines::Refusal, conv_lines::PackedBytes, None, conv_lines::Pack, conv_lines::ScratchBytes,
     conv_lines::Run},
#define SARDONYX_ENTRY(algorithm, name, m, stride, kernel) \
  WinogradEntry<WinogradForm{m, stride, kernel}>(),
    SARDONYX_WINOGRAD_FORMS(SARDONYX_ENTRY)
#undef SARDONYX_ENTRY
};

const Entry& EntryOf(ConvAlgorithm algorithm) { return kEntries[static_cast<int>(algorithm)]; }

// Estimated microseconds on one thread at 100 GFLOP/s. Weights of some megabytes come from memory
// at each run, smaller ones mostly from the last-level cache.
double WeightCost(double bytes) { return bytes * (bytes > (4 << 20) ? 4.0e-5 : 1.0e-5); }

// So many products, while so many bytes of weights come.
double ProductCost(double products, double weight_bytes) {
  const double product = 2 * products * 1.0e-5, weights = WeightCost(weight_bytes);
  return std::max(product, weights) + 0.3 * std::min(product, weights);
}

template <WinogradForm kForm>
double WinogradCost(const ConvShape& s) {
  const auto rows = static_cast<double>(WinogradTiles(s, kForm).Products(s));
  const double matrices = kForm.Weights() * kForm.Weights();
  const double late = ConvWinograd<kForm>::TransformProducts(s);
  const auto cin = static_cast<double>(SlicedChannels(s)), cout = static_cast<double>(s.cout);
  const double size = cin * cout / static_cast<double>(s.groups);
  const double transforms = rows * (cin + cout) * 4 * 4.0e-5;
  const double weights = late > 0 ? kForm.kernel * kForm.kernel : matrices;
  return ProductCost((rows + late * matrices) * size, weights * size * 4) + transforms;
}

double PhasesCost(const ConvShape& s) {
  const double in_bytes = conv_phases::TransformedBytes(s);
  const double out_bytes = static_cast<double>(s.OutPixels() * s.cout) * 4;
  return 2 * conv_phases::Products(s) * 1.0e-5 + in_bytes * 3.6e-5 + out_bytes * 7.5e-5;
}

double StripsCost(const ConvShape& s) {
  const double in_bytes = static_cast<double>(s.InPixels() * s.cin) * 4;
  const double out_bytes = static_cast<double>(s.OutPixels() * s.cout) * 4;
  return 2 * conv_strips::Products(s) * 1.0e-5 + in_bytes * 1.0e-4 + out_bytes * 6.0e-5;
}

double LinesCost(const ConvShape& s) {
  return ProductCost(conv_lines::Products(s), static_cast<double>(conv_lines::PackedBytes(s))) +
         conv_lines::TransformedBytes(s) * 4.0e-5;
}

double GemmCost(const ConvShape& s) {
  const double weights = static_cast<double>(s.KernelSize() * s.cin / s.groups * s.cout) * 4;
  const double gather = static_cast<double>(s.OutPixels() * s.KernelSize() * s.cin) * 4 * 2.5e-5;
  return ProductCost(static_cast<double>(s.Flops()) / 2, weights) + gather;
}

}  // namespace

std::string_view ConvRefusal(ConvAlgorithm algorithm, const ConvShape& shape) {
  return EntryOf(algorithm).refusal(shape);
}

ConvAlgorithm ChooseConv(const ConvShape& shape, int, bool allow_winograd) {
  if (conv_depthwise::Refusal(shape).empty()) return ConvAlgorithm::kDepthwise;
  ConvAlgorithm best = ConvAlgorithm::kGemm;
  if (!allow_winograd) return best;
  double least = GemmCost(shape);
  const auto offer = [&](ConvAlgorithm algorithm, double cost) {
    if (cost >= least) return;
    best = algorithm;
    least = cost;
  };
  if (conv_phases::Refusal(shape).empty()) offer(ConvAlgorithm::kPhases, PhasesCost(shape));
  if (conv_strips::Refusal(shape).empty()) offer(ConvAlgorithm::kStrips, StripsCost(shape));
  if (std::min(shape.cin, shape.cout) >= 8 && conv_lines::Refusal(shape).empty()) {
    offer(ConvAlgorithm::kLines, LinesCost(shape));
  }
  // Few channels leave the transforms more to do than the products save, which stride 2 halves.
  const int64_t few = shape.stride[2] == 2 ? 16 : 8;
  if (std::min(SlicedChannels(shape), shape.cout) < few) return best;
  const auto consider = [&]<WinogradForm kForm>(ConvAlgorithm algorithm) {
    if (ConvWinograd<kForm>::Refusal(shape).empty()) offer(algorithm, WinogradCost<kForm>(shape));
  };
#define SARDONYX_CONSIDER(algorithm, name, m, stride, kernel) \
  consider.operator()<WinogradForm{m, stride, kernel}>(ConvAlgorithm::algorithm);
  SARDONYX_WINOGRAD_FORMS(SARDONYX_CONSIDER)
#undef SARDONYX_CONSIDER
  return best;
}

size_t ConvPackedBytes(ConvAlgorithm algorithm, const ConvShape& shape) {
  return EntryOf(algorithm).packed_bytes(shape);
}

std::string_view ConvPackedForm(ConvAlgorithm algorithm, const ConvShape& shape) {
  return EntryOf(algorithm).packed_form(shape);
}

void ConvPack(ConvAlgorithm algorithm, const ConvShape& shape, const float* weights, float* packed,
              const Parallel& par) {
  EntryOf(algorithm).pack(shape, weights, packed, par);
}

size_t ConvScratchBytes(ConvAlgorithm algorithm, const ConvShape& shape, int threads) {
  return EntryOf(algorithm).scratch_bytes(shape, threads);
}

bool ConvInPlace(ConvAlgorithm algorithm, const ConvShape& shape) {
  if (algorithm == ConvAlgorithm::kDepthwise) return false;
  return algorithm != ConvAlgorithm::kGemm || conv_gemm::StoresOnce(shape);
}

void Conv(ConvAlgorithm algorithm, const ConvShape& shape, const float* x, const float* packed,
          float* y, const Epilogue& epilogue, void* scratch, const Parallel& par) {
  if (shape.OutPixels() == 0 || shape.cout == 0) return;
  EntryOf(algorithm).run(shape, x, packed, y, epilogue, scratch, par);
}

}  // namespace sardonyx
