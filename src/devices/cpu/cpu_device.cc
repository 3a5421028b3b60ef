#include "devices/cpu/cpu_device.h"

#include <unordered_map>

#include "devices/cpu/families.h"
#include "kernels/targets.h"
#include "ops/core/core.h"

namespace sardonyx {
namespace {

class Cpu : public Device {
 public:
  Cpu() {
    ApplyTargetFromEnvironment();
    using namespace cpu;  // NOLINT: a table reads better without
    lists_ = {{&core::matmul, MatMulList()},
              {&core::attention, AttentionList()},
              {&core::linear_attention, LinearAttentionList()},
              {&core::matmul_nbits, MatMulNBitsList()},
              {&core::expert_matmul, ExpertMatMulList()},
              {&core::conv, ConvList()},
              {&core::integer_matmul, IntegerMatMulList()},
              {&core::integer_conv, IntegerConvList()},
              {&core::conv_transpose, ConvTransposeList()},
              {&core::max_pool, MaxPoolList()},
              {&core::average_pool, AveragePoolList()},
              {&core::lp_pool, LpPoolList()},
              {&core::reduce, ReduceList()},
              {&core::arg_reduce, ArgReduceList()},
              {&core::softmax, SoftmaxList()},
              {&core::layer_norm, LayerNormList()},
              {&core::group_moments, GroupMomentsList()},
              {&core::rotary, RotaryList()},
              {&core::inverse, InverseList()},
              {&core::random, RandomList()},
              {&core::resize, ResizeList()},
              {&core::lstm, RecurrentList()},
              {&core::gru, RecurrentList()},
              {&core::rnn, RecurrentList()},
              {&core::transpose, TransposeList()},
              {&core::slice, SliceList()},
              {&core::expand, ExpandList()},
              {&core::tile, TileList()},
              {&core::concat, ConcatList()},
              {&core::split, SplitList()},
              {&core::pad, PadList()},
              {&core::constant_of_shape, ConstantOfShapeList()},
              {&core::topk, TopKList()},
              {&core::cumulative, CumulativeList()},
              {&core::trilu, TriluList()},
              {&core::range, RangeList()},
              {&core::eye_like, EyeLikeList()},
              {&core::one_hot, OneHotList()},
              {&core::nonzero, NonzeroList()},
              {&core::compress, CompressList()},
              {&core::unique, UniqueList()},
              {&core::non_max_suppression, NonMaxSuppressionList()},
              {&core::gather, GatherList()},
              {&core::gather_elements, GatherElementsList()},
              {&core::gather_nd, GatherNdList()},
              {&core::scatter_elements, ScatterElementsList()},
              {&core::scatter_nd, ScatterNdList()},
              {&core::write_rows, WriteRowsList()},
              {&core::tree_ensemble, TreeEnsembleList()},
              {&core::lookup, LookupList()},
              {&core::dft, DftList()},
              {&core::det, DetList()},
              {&core::tf_idf_vectorizer, TfIdfVectorizerList()},
              {&core::murmur_hash, MurmurHashList()},
              {&core::dynamic_time_warping, DynamicTimeWarpingList()},
              {&core::grid_sample, GridSampleList()},
              {&core::roi_align, RoiAlignList()},
              {&core::crop_and_resize, CropAndResizeList()},
              {&core::deform_columns, DeformColumnsList()},
              {&core::col2im, Col2ImList()}};
  }

  std::string_view name() const override { return "cpu"; }

  std::span<const Implementation> Implementations(const CoreOp& op) const override {
    // The scalar functions and the chains that passes make of them are one family.
    if (op.expression != nullptr) return cpu::ElementwiseList();
    auto it = lists_.find(&op);
    return it != lists_.end() ? it->second : std::span<const Implementation>();
  }

 private:
  std::unordered_map<const CoreOp*, std::span<const Implementation>> lists_;
};

}  // namespace

const Device& CpuDevice() {
  static const Cpu kDevice;
  return kDevice;
}

}  // namespace sardonyx
