#include "runtime/parts.h"

#include <algorithm>
#include <utility>

#include "ops/core/core.h"

namespace sardonyx {
namespace {

// Where rows are short and the whole does not stay in a cache, each part brings in the lines of its
// neighbours too. Measured: four parts of 96 bytes in a whole of 13 MB, 1.4 ms more for the steps
// that write them, 1.0 for the copy; two of 128 bytes in one of 17 MB, 0.9 against 1.8.
constexpr int64_t kLeastRowBytes = 128, kSmallWholeBytes = 1 << 20;
// A sweep takes 2 to 5 ns for each row that lies apart, and a copy of dense ones less: relu of two
// parts of 4 bytes in 60,000 rows 304 us, with a copy 46; of 16 in 15,000 85, with it 28; of 64
// bytes as long. Fewer rows take little more than a step.
constexpr int64_t kShortSweep = 64, kFewSwept = 4096;

bool IsJoin(const Step& step) { return step.node->op == &core::concat; }
bool IsCut(const Step& step) {
  return step.node->op == &core::split || step.node->op == &core::slice;
}

class PartPlacer {
 public:
  PartPlacer(Plan* plan, Places places, const BindAgain& bind)
      : plan_(*plan), roots_(*places.roots), offsets_(*places.offsets), bind_(bind) {}

  void Run() {
    const auto has_parts = [](const Step& step) {
      return step.kind == Step::Kind::kBound && (IsJoin(step) || IsCut(step));
    };
    const auto collides = [](const Step& step) {
      return step.kind == Step::Kind::kBound && step.binding->bound.collide != 0;
    };
    if (std::none_of(plan_.steps.begin(), plan_.steps.end(),
                     [&](const Step& step) { return has_parts(step) || collides(step); })) {
      return;
    }
    FindUses();
    // From the end: where a whole is a part itself, its parts move to the place that it was given.
    for (auto step = plan_.steps.rbegin(); step != plan_.steps.rend(); ++step) {
      if (IsJoin(*step) && has_parts(*step) && Join(*step)) done_.push_back(&*step);
    }
    // Then from the begin: what is cut may be a part of what was cut before, or of a concat.
    for (Step& step : plan_.steps) {
      if (IsCut(step) && has_parts(step) && Cut(step)) done_.push_back(&step);
    }
    // Last, rows that are no part of others.
    for (const Step& step : plan_.steps) {
      for (size_t i = 0; collides(step) && i < step.inputs.size(); ++i) {
        if (Has(step.binding->bound.collide, i)) Spread(roots_[step.inputs[i]]);
      }
    }
    std::erase_if(plan_.steps, [&](const Step& step) { return IsDone(&step); });
  }

 private:
  void FindUses() {
    writers_.resize(plan_.values.size());
    readers_.resize(plan_.values.size());
    stays_.resize(plan_.values.size());
    for (Step& step : plan_.steps) {
      for (int id : step.outputs) writers_[id] = &step;
      for (int id : step.inputs) {
        if (id >= 0 && (readers_[id].empty() || readers_[id].back() != &step)) {
          readers_[id].push_back(&step);
        }
      }
    }
    for (const Plan::Output& output : plan_.outputs) {
      if (roots_[output.value] >= 0) stays_[roots_[output.value]] = true;
    }
    for (size_t id = 0; id < roots_.size(); ++id) {
      const int root = roots_[id];
      if (root >= 0 && root != static_cast<int>(id))
        views_.emplace_back(root, static_cast<int>(id));
    }
  }

  bool IsDone(const Step* step) const {
    return std::find(done_.begin(), done_.end(), step) != done_.end();
  }

  // True if all parts are in place.
  bool Join(Step& step) {
    const PlannedValue& whole = plan_.values[step.outputs[0]];
    if (IsPacked(whole.dtype) || BytesOf(step.outputs[0]) == 0) return false;
    const int64_t given = step.node->attributes.Int("axis");
    const size_t axis = static_cast<size_t>(given < 0 ? given + std::ssize(whole.dims) : given);
    const bool is_one_row =
        whole.row_stride == 0 && ElementCount(std::span(whole.dims).first(axis)) == 1;
    if (!is_one_row && axis + 1 != whole.dims.size()) return false;
    bool all = true, any = false;
    int64_t at = offsets_[step.outputs[0]];
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const PlannedValue& part = plan_.values[step.inputs[i]];
      if (BytesOf(step.inputs[i]) == 0) continue;  // nothing to copy, and no row to lie apart
      const bool moves =
          is_one_row ? MoveOneRow(step, step.inputs[i], at) : MoveRows(step, step.inputs[i], at);
      all &= moves;
      any |= moves;
      at += ByteSize(part.dtype, ElementCount(std::span(part.dims).subspan(axis)));
    }
    // It must tell the parts that are in place from those that it copies.
    if (any && !all && !is_one_row) BindOver(&step);
    return all;
  }

  // True if all parts are in place: read where they are columns of the whole.
  bool Cut(Step& step) {
    const int from = step.inputs[0];
    const PlannedValue& whole = plan_.values[from];
    if (IsPacked(whole.dtype) || whole.constant.defined() || roots_[from] < 0) return false;
    if (whole.row_axes > 1) return false;  // columns of the last axis are not evenly apart
    std::vector<Operand> inputs, outputs;
    for (int id : step.inputs) {
      inputs.push_back(id >= 0 ? plan_.values[id].AsOperand() : Operand());
    }
    for (int id : step.outputs) outputs.push_back(plan_.values[id].AsOperand());
    bool all = true, any = false;
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const int part = step.outputs[i];
      if (BytesOf(part) == 0) continue;
      const int64_t at = ColumnsOffset(*step.node, inputs, outputs, i);
      const bool moves =
          at >= 0 && MayLieApart(part, from) && PutApart(part, RowStrideOf(from), {});
      if (moves) Move(part, from, offsets_[from] + at);
      all &= moves;
      any |= moves;
    }
    if (any && !all) BindOver(&step);
    return all;
  }

  // Whether nothing but the plan says where a value lies that is its own root.
  bool IsFree(int id) const {
    const PlannedValue& value = plan_.values[id];
    return roots_[id] == id && !stays_[id] && writers_[id] != nullptr && value.dynamic < 0 &&
           !value.constant.defined();
  }

  // One piece of memory: whoever writes or reads it does not notice. `part` may be a view of all of
  // its root.
  bool MoveOneRow(const Step& step, int part, int64_t at) {
    const int root = roots_[part];
    if (root < 0 || !IsFree(root) || offsets_[part] != 0 || BytesOf(part) != BytesOf(root)) {
      return false;
    }
    Move(root, step.outputs[0], at);
    return true;
  }

  bool MoveRows(const Step& step, int part, int64_t at) {
    Step* const writer = writers_[part];
    const int whole = step.outputs[0];
    if (!MayLieApart(part, whole) || !writer->binding->bound.apart_output ||
        writer->outputs[0] != part || !PutApart(part, RowStrideOf(whole), {writer}, &step)) {
      return false;
    }
    Move(part, whole, at);
    return true;
  }

  // Leaves a line of a cache behind each row. Of products alone: sweeps would copy their rows to
  // where they lie.
  void Spread(int id) {
    constexpr int64_t kLine = 64;
    if (id < 0 || !IsFree(id)) return;
    const PlannedValue& value = plan_.values[id];
    Step* const writer = writers_[id];
    const CoreOp* const op = writer->node->op;
    const bool is_product = op == &core::conv || op == &core::matmul;
    if (value.row_stride > 0 || writer->kind != Step::Kind::kBound || !is_product ||
        !writer->binding->bound.apart_output || writer->outputs[0] != id) {
      return;
    }
    PutApart(id, value.dims.back() + kLine / ByteSize(value.dtype, 1), {writer});
  }

  int64_t RowStrideOf(int whole) const {
    const PlannedValue& value = plan_.values[whole];
    return value.row_stride > 0 ? value.row_stride : value.dims.back();
  }

  bool MayLieApart(int part, int whole) const {
    if (!IsFree(part)) return false;
    const PlannedValue& value = plan_.values[part];
    return ByteSize(value.dtype, value.dims.back()) >= kLeastRowBytes ||
           BytesOf(roots_[whole]) <= kSmallWholeBytes;
  }

  // How many of the last axes of a value make a row of so many elements; 0 if no number does.
  static int RowAxes(const PlannedValue& value, int64_t row) {
    int64_t count = 1;
    for (int axes = 1; axes <= std::ssize(value.dims); ++axes) {
      count *= value.dims[value.dims.size() - static_cast<size_t>(axes)];
      if (count >= row) return count == row ? axes : 0;
    }
    return 0;
  }

  // The part and all that sees it, each with the number of its axes that make a row of the part;
  // nothing if one sees other rows.
  std::vector<std::pair<int, int>> SeenAs(int part) const {
    std::vector<std::pair<int, int>> seen = {{part, 1}};
    for (const auto& [root, view] : views_) {
      if (root != part) continue;
      const bool is_all = offsets_[view] == 0 && BytesOf(view) == BytesOf(part);
      const int axes = RowAxes(plan_.values[view], plan_.values[part].dims.back());
      if (!is_all || axes == 0) return {};
      seen.emplace_back(view, axes);
    }
    return seen;
  }

  static bool IsSweep(const Step& step) {
    Fn fn;
    return step.node->op == &core::fused || core::IsElementwise(*step.node->op, &fn);
  }

  // Binds all that read the part, and `others`, to rows that lie so far apart, unless one refuses.
  // The step `but` sees to itself.
  bool PutApart(int part, int64_t row_stride, std::vector<Step*> others,
                const Step* but = nullptr) {
    const std::vector<std::pair<int, int>> seen = SeenAs(part);
    if (seen.empty()) return false;
    const PlannedValue& value = plan_.values[part];
    const int64_t row_bytes = std::max<int64_t>(ByteSize(value.dtype, value.dims.back()), 1);
    const bool is_short = row_bytes < kShortSweep && BytesOf(part) / row_bytes > kFewSwept;
    for (const auto& [id, axes] : seen) {
      for (Step* reader : readers_[id]) {
        if (reader == but || IsDone(reader)) continue;
        if (is_short && IsSweep(*reader)) return false;
        const Bound& bound = reader->binding->bound;
        const uint32_t apart = axes == 1 ? bound.apart : bound.apart_axes;
        for (size_t i = 0; i < reader->inputs.size(); ++i) {
          if (reader->inputs[i] == id && !Has(apart, i)) return false;
        }
        if (std::ranges::count(others, reader) == 0) others.push_back(reader);
      }
    }
    if (is_short && std::ranges::any_of(others, [](const Step* s) { return IsSweep(*s); })) {
      return false;
    }
    const auto set = [&](int64_t stride) {
      for (const auto& [id, axes] : seen) {
        plan_.values[id].row_stride = stride;
        plan_.values[id].row_axes = stride > 0 ? axes : 1;
      }
    };
    set(row_stride);
    std::vector<std::shared_ptr<const Binding>> again;
    for (const Step* other : others) {
      again.push_back(bind_(*other));
      if (again.back() != nullptr) continue;
      set(0);
      return false;
    }
    for (size_t i = 0; i < others.size(); ++i) others[i]->binding = std::move(again[i]);
    return true;
  }

  void BindOver(Step* step) {
    std::shared_ptr<const Binding> again = bind_(*step);
    if (again == nullptr) {
      Fail(ErrorCode::kInternal, "{} by {} does not take rows apart", step->node->op->name,
           step->binding->implementation);
    }
    step->binding = std::move(again);
  }

  void Move(int root, int whole, int64_t at) {
    const auto move = [&](int id) {
      roots_[id] = roots_[whole];
      offsets_[id] += at;
    };
    move(root);
    for (auto& [from, id] : views_) {
      if (from != root) continue;
      move(id);
      from = roots_[whole];
    }
    views_.emplace_back(roots_[whole], root);  // a part, so the whole's rows no longer move apart
  }

  int64_t BytesOf(int id) const { return plan_.values[id].bytes(); }

  Plan& plan_;
  std::vector<int>& roots_;
  std::vector<int64_t>& offsets_;
  const BindAgain& bind_;
  std::vector<Step*> writers_;               // by id; of values that steps write
  std::vector<std::vector<Step*>> readers_;  // by id, once each
  std::vector<bool> stays_;                  // by root: an output of the plan lies there
  std::vector<std::pair<int, int>> views_;   // root and value, all of it or a part
  std::vector<const Step*> done_;
};

}  // namespace

void PlaceParts(Plan* plan, Places places, const BindAgain& bind) {
  PartPlacer(plan, places, bind).Run();
}

}  // namespace sardonyx
