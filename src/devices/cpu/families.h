#pragma once
// The ordered lists of implementations, one function a family; cpu_device.cc says which core
// operation uses which.

#include <span>

#include "kernels/conv.h"
#include "kernels/ordered_bits.h"
#include "runtime/device.h"

namespace sardonyx::cpu {

std::span<const Implementation> ElementwiseList();
std::span<const Implementation> MatMulList();
std::span<const Implementation> AttentionList();
std::span<const Implementation> LinearAttentionList();
std::span<const Implementation> MatMulNBitsList();
std::span<const Implementation> ExpertMatMulList();
std::span<const Implementation> ConvList();
std::span<const Implementation> ConvTransposeList();
std::span<const Implementation> IntegerMatMulList();
std::span<const Implementation> IntegerConvList();
std::span<const Implementation> MaxPoolList();
std::span<const Implementation> AveragePoolList();
std::span<const Implementation> LpPoolList();
std::span<const Implementation> ReduceList();
std::span<const Implementation> ArgReduceList();
std::span<const Implementation> SoftmaxList();
std::span<const Implementation> LayerNormList();
std::span<const Implementation> GroupMomentsList();
std::span<const Implementation> RotaryList();
std::span<const Implementation> InverseList();
std::span<const Implementation> RandomList();
std::span<const Implementation> ResizeList();
std::span<const Implementation> RecurrentList();
std::span<const Implementation> TransposeList();
std::span<const Implementation> SliceList();
std::span<const Implementation> ExpandList();
std::span<const Implementation> TileList();
std::span<const Implementation> ConcatList();
std::span<const Implementation> SplitList();
std::span<const Implementation> PadList();
std::span<const Implementation> ConstantOfShapeList();
std::span<const Implementation> TopKList();
std::span<const Implementation> CumulativeList();
std::span<const Implementation> TriluList();
std::span<const Implementation> RangeList();
std::span<const Implementation> EyeLikeList();
std::span<const Implementation> OneHotList();
std::span<const Implementation> NonzeroList();
std::span<const Implementation> CompressList();
std::span<const Implementation> UniqueList();
std::span<const Implementation> NonMaxSuppressionList();
std::span<const Implementation> GatherList();
std::span<const Implementation> GatherElementsList();
std::span<const Implementation> GatherNdList();
std::span<const Implementation> ScatterElementsList();
std::span<const Implementation> ScatterNdList();
std::span<const Implementation> WriteRowsList();
std::span<const Implementation> TreeEnsembleList();
std::span<const Implementation> LookupList();
std::span<const Implementation> DftList();
std::span<const Implementation> DetList();
std::span<const Implementation> TfIdfVectorizerList();
std::span<const Implementation> MurmurHashList();
std::span<const Implementation> DynamicTimeWarpingList();
std::span<const Implementation> GridSampleList();
std::span<const Implementation> RoiAlignList();
std::span<const Implementation> CropAndResizeList();
std::span<const Implementation> DeformColumnsList();
std::span<const Implementation> Col2ImList();

// Strides in elements of an operand, whose rows may lie apart.
std::vector<int64_t> Strides(const Operand& operand);
// Strides in elements that read `operand` over an output of shape `dims` (numpy broadcast): 0 along
// dimensions of size 1 and those that the operand lacks.
std::vector<int64_t> BroadcastStrides(const std::vector<int64_t>& operand,
                                      std::span<const int64_t> dims);
// The same where the operand's rows may lie apart.
std::vector<int64_t> BroadcastStrides(const Operand& operand, std::span<const int64_t> dims);

// The geometry of a convolution of channels-last operands; a reason if kernels lack it.
std::string ConvShapeOf(const BindRequest& request, bool transposed, ConvShape* shape);
// A tensor of float16 or bfloat16 as float32; any other as it is.
Tensor WidenedHalves(const Tensor& tensor);

// An operand's dimensions around an axis, which may count from the end.
struct Line {
  int64_t outer = 1, size = 1, inner = 1;
};
Line Around(const Operand& operand, int64_t axis);

// How elements of a type are ordered; false for types whose order kernels lack.
bool OrderOf(DType dtype, OrderedBits* order);

// Refusal with a formatted reason.
template <typename... Args>
BindResult Refuse(fmt::format_string<Args...> text, Args&&... args) {
  return fmt::format(text, std::forward<Args>(args)...);
}

// Bytes of an element that is copied as it is, 0 if it has none of its own; and the refusal then.
int Width(DType dtype);
BindResult NoWidth(DType dtype);

}  // namespace sardonyx::cpu
