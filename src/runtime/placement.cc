#include "runtime/placement.h"

#include <algorithm>

#include "runtime/memory_planner.h"

namespace sardonyx {
namespace {

class Placement {
 public:
  Placement(Plan* plan, Places places, size_t input_count)
      : plan_(*plan), roots_(*places.roots), offsets_(*places.offsets), input_count_(input_count) {}

  void Run() {
    FindLastUses();
    PlaceValues();
    FillAddresses();
  }

 private:
  // What is known of memory: a root is a block of its own; other values lie in their root.
  struct Block {
    int first = -1;
    int last = -1;
    int64_t bytes = 0;
    int output = -1;      // lies in the buffer of that output
    bool placed = false;  // an input, a constant or a dynamic value: not the arena's
  };

  void FindLastUses() {
    const int end = static_cast<int>(plan_.steps.size());
    last_use_.resize(plan_.values.size(), -1);
    for (int s = 0; s < end; ++s) {
      for (int id : plan_.steps[s].inputs) {
        if (id >= 0) last_use_[id] = s;
      }
    }
    for (const Plan::Output& output : plan_.outputs) last_use_[output.value] = end;
    std::vector<int> last_of_all = last_use_;  // of the value and of its views
    for (size_t id = 0; id < roots_.size(); ++id) {
      if (roots_[id] < 0) continue;
      int& last = last_of_all[roots_[id]];
      last = std::max(last, last_use_[id]);
    }
    for (size_t id = 0; id < plan_.values.size(); ++id) {
      const int last = last_of_all[id];
      if (plan_.values[id].dynamic >= 0 && last >= 0 && last < end) {
        plan_.steps[last].releases.push_back(plan_.values[id].dynamic);
      }
    }
  }

  void PlaceValues() {
    const int end = static_cast<int>(plan_.steps.size());
    blocks_.resize(plan_.values.size());
    for (size_t id = 0; id < plan_.values.size(); ++id) {
      const int root = roots_[id];
      if (root < 0) continue;
      Block& block = blocks_[root];
      block.last = std::max(block.last, last_use_[id]);
      const PlannedValue& value = plan_.values[root];
      block.placed = value.dynamic >= 0 || value.address.base != kBaseAbsent;
    }
    for (int s = 0; s < end; ++s) ShareOrOpen(s);
    // Outputs are written in place where nothing else claims the block.
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      const int id = plan_.outputs[i].value;
      if (!plan_.values[id].is_static || plan_.values[id].constant.defined()) continue;
      Block& block = blocks_[Root(id)];
      if (block.placed || block.output >= 0 || offsets_[id] != 0 || block.bytes != BytesOf(id)) {
        continue;
      }
      block.output = static_cast<int>(i);
      plan_.outputs[i].in_place = true;
    }
    std::vector<Lifetime> lifetimes;
    std::vector<int> owners;  // a root, or -1 - step for scratch
    for (size_t id = 0; id < blocks_.size(); ++id) {
      Block& block = blocks_[id];
      if (roots_[id] != static_cast<int>(id) || block.placed) continue;
      if (block.output >= 0) {
        plan_.values[id].address = {OutputBase(block.output), 0};
        continue;
      }
      if (block.first < 0) {
        // No step writes it: it is in a window between joined steps, or has no elements, and is
        // read all the same.
        if (BytesOf(static_cast<int>(id)) == 0) plan_.values[id].address = {kBaseArena, 0};
        continue;
      }
      lifetimes.push_back({block.bytes, block.first, std::max(block.first, block.last), 0});
      owners.push_back(static_cast<int>(id));
    }
    plan_.live_bytes = MostAtOnce(lifetimes, end);
    for (int s = 0; s < end; ++s) {
      const int64_t scratch = plan_.steps[s].binding->bound.scratch_bytes;
      if (scratch > 0) {
        lifetimes.push_back({scratch, s, s, 0});
        owners.push_back(-1 - s);
      }
    }
    plan_.arena_bytes = PlanMemory(&lifetimes);
    for (size_t i = 0; i < lifetimes.size(); ++i) {
      const Address address{kBaseArena, lifetimes[i].offset};
      if (owners[i] >= 0) {
        plan_.values[owners[i]].address = address;
      } else {
        plan_.steps[-1 - owners[i]].scratch = address;
      }
    }
  }

  static int64_t MostAtOnce(const std::vector<Lifetime>& lifetimes, int steps) {
    std::vector<int64_t> changes(static_cast<size_t>(steps) + 2);
    for (const Lifetime& lifetime : lifetimes) {
      changes[static_cast<size_t>(lifetime.first)] += lifetime.bytes;
      changes[static_cast<size_t>(lifetime.last) + 1] -= lifetime.bytes;
    }
    int64_t most = 0, live = 0;
    for (const int64_t change : changes) most = std::max(most, live += change);
    return most;
  }

  // Output 0 takes over the block of an input that ends here, else opens its own.
  void ShareOrOpen(int s) {
    Step& step = plan_.steps[s];
    if (step.kind == Step::Kind::kDynamic || step.kind == Step::Kind::kControl) return;
    for (size_t o = 0; o < step.outputs.size(); ++o) {
      const int id = step.outputs[o];
      const int64_t bytes = BytesOf(id);
      const int root = Root(id);
      if (o == 0 && root == id && ShareInput(step, s, id, bytes)) continue;
      Block& block = blocks_[root];
      if (block.first >= 0) continue;  // another part of it was written before
      block.first = s;
      block.bytes = root == id ? bytes : BytesOf(root);
    }
  }

  bool ShareInput(const Step& step, int s, int output, int64_t bytes) {
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const int input = step.inputs[i];
      if (input < 0 || !Has(step.binding->bound.inplace, i)) continue;
      const int root = Root(input);
      Block& block = blocks_[root];
      const PlannedValue &from = plan_.values[input], &to = plan_.values[output];
      const bool is_alike =
          from.row_stride == to.row_stride && (to.row_stride == 0 || from.dims == to.dims);
      if (block.placed || block.last != s || block.bytes != bytes || offsets_[input] != 0 ||
          !is_alike) {
        continue;
      }
      bool alone = true;
      for (size_t j = 0; j < step.inputs.size(); ++j) {
        const int other = step.inputs[j];
        const bool may = other == input && Has(step.binding->bound.inplace, j);
        alone = alone && (other < 0 || may || Root(other) != root);
      }
      if (!alone) continue;
      block.last = std::max(block.last, blocks_[output].last);
      roots_[output] = root;
      return true;
    }
    return false;
  }

  int64_t BytesOf(int id) const {
    const PlannedValue& value = plan_.values[id];
    return roots_[id] == id ? value.spanned_bytes() : value.bytes();
  }

  int32_t OutputBase(int output) const {
    return kBaseFirst + static_cast<int32_t>(input_count_) + output;
  }

  void FillAddresses() {
    const int32_t dynamic_base = OutputBase(static_cast<int>(plan_.outputs.size()));
    for (size_t id = 0; id < plan_.values.size(); ++id) {
      PlannedValue& value = plan_.values[id];
      if (value.constant.defined()) continue;
      if (value.dynamic >= 0) {
        value.address = {dynamic_base + value.dynamic, 0};
        continue;
      }
      const int root = Root(static_cast<int>(id));
      if (root < 0) continue;
      const PlannedValue& base = plan_.values[root];
      value.address = base.dynamic >= 0
                          ? Address{dynamic_base + base.dynamic, offsets_[id]}
                          : Address{base.address.base, base.address.offset + offsets_[id]};
    }
    for (Step& step : plan_.steps) {
      step.first_address = static_cast<uint32_t>(plan_.addresses.size());
      plan_.max_operands = std::max({plan_.max_operands, step.inputs.size(), step.outputs.size()});
      for (int id : step.inputs) {
        plan_.addresses.push_back(id >= 0 ? plan_.values[id].address : Address{});
      }
      for (int id : step.outputs) plan_.addresses.push_back(plan_.values[id].address);
    }
  }

  // The block of a value. One that took over the block of another leads on to it.
  int Root(int id) const {
    while (id >= 0 && roots_[id] != id) id = roots_[id];
    return id;
  }

  Plan& plan_;
  std::vector<int>& roots_;
  const std::vector<int64_t>& offsets_;
  const size_t input_count_;
  std::vector<int> last_use_;
  std::vector<Block> blocks_;
};

}  // namespace

void PlaceValues(Plan* plan, Places places, size_t input_count) {
  Placement(plan, places, input_count).Run();
}

}  // namespace sardonyx
