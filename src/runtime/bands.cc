#include "runtime/bands.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/round.h"

namespace sardonyx {
namespace {

// What lies between two steps is too large for a second-level cache, of 1 or 2 MiB, from so many
// bytes on. Measured on Emerald Rapids (2 MiB), 3x3 convolutions of each channel between pointwise
// ones: 4.8 MB between them 0.80 of the time, 1.8 MB 0.92. Where more is multiplied for each of
// these bytes, the memory keeps up: 0.97 of the time at 0.07 bytes for a multiplication, 1.02 at
// 0.04. Long chains were slower than several of three steps, for their bands are lower.
constexpr int64_t kLarge = 1 << 20;
constexpr double kLeastBytesAProduct = 1.0 / 16;
constexpr size_t kMostSteps = 3;
// Of lines that lie between the steps of a thread; bands of two lines cost some percent more.
constexpr int64_t kBandBytes = 768 << 10;
constexpr int64_t kMostLines = 8;  // of the last step's output at a time
constexpr size_t kMostInputs = 16;

// A step among others.
struct Link {
  std::shared_ptr<const Binding> binding;
  std::vector<int> inputs;  // among those of all steps; -1: the lines of the step before
  int64_t window = 0;       // where its output lies in a thread's memory, in bytes

  const ByLines& by_lines() const { return *binding->bound.by_lines; }
};

class Bands {
 public:
  Bands(std::vector<Link> links, int threads) : links_(std::move(links)) {
    const int64_t lines = links_.back().by_lines().out_lines;
    // Pairs of lines: some kernels do two at a time.
    height_ = kMostLines;
    while (height_ > 2 && WindowBytes(height_) > kBandBytes) height_ -= 2;
    bytes_ = WindowBytes(height_);
    shares_ = std::min<int64_t>(threads, CeilDiv(lines, height_));
    int64_t at = 0;
    for (size_t i = 0; i + 1 < links_.size(); ++i) {
      links_[i].window = at;
      at += OneWindow(i, height_);
    }
  }

  int64_t scratch_bytes() const { return shares_ * bytes_; }
  int64_t height() const { return height_; }

  void Run(const StepArgs& args) const {
    const int64_t pairs = CeilDiv(links_.back().by_lines().out_lines, 2);
    args.parallel.For(shares_, [&](int64_t share) {
      const Lines lines{pairs * share / shares_ * 2, std::min(pairs * (share + 1) / shares_ * 2,
                                                              links_.back().by_lines().out_lines)};
      RunShare(args, static_cast<char*>(args.scratch) + share * bytes_, lines);
    });
  }

 private:
  // Lines of the output of each step that `height` lines of the last one need.
  int64_t LinesOf(size_t link, int64_t height) const {
    for (size_t i = links_.size() - 1; i > link; --i) {
      const ByLines& step = links_[i].by_lines();
      height = std::min((height - 1) * step.stride + step.reach, step.in_lines);
    }
    return height;
  }
  int64_t OneWindow(size_t link, int64_t height) const {
    return static_cast<int64_t>(
        AlignBytes(static_cast<size_t>(LinesOf(link, height) * links_[link].by_lines().out_bytes)));
  }
  int64_t WindowBytes(int64_t height) const {
    int64_t bytes = 0;
    for (size_t i = 0; i + 1 < links_.size(); ++i) bytes += OneWindow(i, height);
    return bytes;
  }

  void RunShare(const StepArgs& args, char* memory, Lines share) const {
    const size_t last = links_.size() - 1;
    std::array<Lines, kMostSteps> needed, kept = {};  // of the output of each step
    for (int64_t begin = share.begin; begin < share.end; begin += height_) {
      needed[last] = {begin, std::min(begin + height_, share.end)};
      for (size_t i = last; i > 0; --i) needed[i - 1] = links_[i].by_lines().Read(needed[i]);
      for (size_t i = 0; i < last; ++i) {
        // Lines that are needed again move to the front.
        Lines& lines = kept[i];
        const int64_t line_bytes = links_[i].by_lines().out_bytes;
        if (lines.end > needed[i].begin) {
          char* const window = memory + links_[i].window;
          std::memmove(window, window + (needed[i].begin - lines.begin) * line_bytes,
                       static_cast<size_t>((lines.end - needed[i].begin) * line_bytes));
        }
        lines = {needed[i].begin, std::max(lines.end, needed[i].begin)};
      }
      for (size_t i = 0; i <= last; ++i) {
        Lines lines = needed[i];
        if (i < last) lines.begin = std::exchange(kept[i].end, lines.end);
        if (lines.count() > 0) RunLink(args, memory, i, lines, kept);
      }
    }
  }

  void RunLink(const StepArgs& args, char* memory, size_t i, Lines lines,
               const std::array<Lines, kMostSteps>& kept) const {
    const Link& link = links_[i];
    const ByLines& step = link.by_lines();
    const Lines read = step.Read(lines);
    std::array<const void*, kMostInputs> in;
    for (size_t k = 0; k < link.inputs.size(); ++k) {
      const int64_t line = k == 0 ? read.begin : lines.begin;
      const char* from = nullptr;
      if (link.inputs[k] >= 0) {
        from = static_cast<const char*>(args.in[link.inputs[k]]) + line * step.in_bytes[k];
      } else {
        from = memory + links_[i - 1].window + (line - kept[i - 1].begin) * step.in_bytes[0];
      }
      in[k] = from;
    }
    const bool ends = i + 1 == links_.size();
    char* const base = ends ? static_cast<char*>(args.out[0]) : memory + link.window;
    void* out = base + (lines.begin - (ends ? 0 : kept[i].begin)) * step.out_bytes;
    step.run({.in = in.data(), .out = &out, .scratch = nullptr, .parallel = {}}, read, lines);
  }

  std::vector<Link> links_;
  int64_t height_ = 0, bytes_ = 0, shares_ = 1;
};

class Joiner {
 public:
  Joiner(Plan* plan, const std::vector<int>& roots, int threads)
      : plan_(*plan), roots_(roots), threads_(threads) {}

  void Run() {
    const auto by_lines = [this](const Step& step) { return RunsByLines(step); };
    if (std::none_of(plan_.steps.begin(), plan_.steps.end(), by_lines)) return;
    FindUses();
    std::vector<Step> steps;
    for (size_t begin = 0; begin < plan_.steps.size();) {
      size_t end = begin + 1;
      while (end < plan_.steps.size() && end - begin < kMostSteps && LeadsOn(end - 1)) ++end;
      steps.push_back(end - begin > 1 ? Join(begin, end) : std::move(plan_.steps[begin]));
      begin = end;
    }
    plan_.steps = std::move(steps);
  }

 private:
  void FindUses() {
    uses_.resize(plan_.values.size());
    for (const Step& step : plan_.steps) {
      for (int id : step.inputs) {
        if (id >= 0) ++uses_[id];
      }
    }
    for (const Plan::Output& output : plan_.outputs) ++uses_[output.value];
    // What lies in the memory of another value, or has others in its own, stays where it is.
    for (size_t id = 0; id < roots_.size(); ++id) {
      if (roots_[id] >= 0 && roots_[id] != static_cast<int>(id)) uses_[id] = uses_[roots_[id]] = 2;
    }
  }

  bool RunsByLines(const Step& step) const {
    return step.kind == Step::Kind::kBound && step.binding->bound.by_lines != nullptr &&
           step.outputs.size() == 1 && step.inputs.size() <= kMostInputs;
  }

  // Whether the step behind reads the output of step s, and nobody else does, and it is worth it.
  bool LeadsOn(size_t s) const {
    const Step &step = plan_.steps[s], &next = plan_.steps[s + 1];
    if (!RunsByLines(step) || !RunsByLines(next)) return false;
    const int id = step.outputs[0];
    const PlannedValue& value = plan_.values[id];
    const bool is_free = next.inputs[0] == id && uses_[id] == 1;
    if (!is_free || value.bytes() < kLarge) return false;
    const double products =
        step.binding->bound.by_lines->Products() + next.binding->bound.by_lines->Products();
    return static_cast<double>(value.bytes()) >= products * kLeastBytesAProduct;
  }

  Step Join(size_t begin, size_t end) {
    std::vector<int>& inputs = plan_.joined_inputs.emplace_back();
    std::vector<Link> links;
    auto binding = std::make_shared<Binding>();
    for (size_t s = begin; s < end; ++s) {
      const Step& step = plan_.steps[s];
      Link link;
      link.binding = step.binding;
      for (size_t i = 0; i < step.inputs.size(); ++i) {
        const bool is_window = i == 0 && s > begin;
        link.inputs.push_back(is_window ? -1 : static_cast<int>(inputs.size()));
        if (!is_window) inputs.push_back(step.inputs[i]);
      }
      const std::string name = step.node->origin ? step.node->origin->name : "";
      binding->joined.push_back(
          fmt::format("{} {} {}", name, step.node->op->name, step.binding->implementation));
      links.push_back(std::move(link));
    }
    const auto bands = std::make_shared<const Bands>(std::move(links), threads_);
    binding->implementation = "bands";
    binding->joined.push_back(fmt::format("{} lines at a time", bands->height()));
    binding->bound.scratch_bytes = bands->scratch_bytes();
    binding->bound.run = [bands](const StepArgs& args) { bands->Run(args); };
    Step joined = std::move(plan_.steps[end - 1]);
    joined.inputs = inputs;
    joined.binding = std::move(binding);
    return joined;
  }

  Plan& plan_;
  const std::vector<int>& roots_;
  const int threads_;
  std::vector<int> uses_;  // by steps, and as outputs of the plan
};

}  // namespace

void JoinIntoBands(Plan* plan, const std::vector<int>& roots, int threads) {
  Joiner(plan, roots, threads).Run();
}

}  // namespace sardonyx
