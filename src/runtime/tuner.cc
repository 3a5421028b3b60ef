#include "runtime/tuner.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace sardonyx {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 5;
constexpr double kMostSeconds = 0.1;  // a candidate, after its first run
// Of the time of the device's own choice: what gains less may be noise, and measured alone a step
// finds other caches than among its neighbours.
constexpr double kClearlyFaster = 0.95;
// Read between runs: the other steps of a network leave little of one step's weights in the caches.
constexpr int64_t kSweptBytes = 16 << 20;

void Append(const Attribute& attribute, std::string* key) {
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, Expression>) {
          *key += value.Print();
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>> ||
                             std::is_same_v<T, std::vector<double>> ||
                             std::is_same_v<T, std::vector<std::string>>) {
          *key += fmt::format("{}", fmt::join(value, ","));
        } else if constexpr (!std::is_same_v<T, Tensor> &&
                             !std::is_same_v<T, std::shared_ptr<Graph>>) {
          *key += fmt::format("{}", value);
        }
      },
      attribute);
}

// All that the speed of an implementation depends on.
std::string KeyOf(const BindRequest& request) {
  std::string key = fmt::format("{} threads={}{}", request.node.op->name, request.threads,
                                request.winograd ? "" : " direct");
  for (const auto& [name, value] : request.node.attributes.items()) {
    key += fmt::format(" {}=", name);
    Append(value, &key);
  }
  for (const auto& operands : {request.inputs, request.outputs}) {
    key += " |";
    for (const Operand& operand : operands) {
      key += fmt::format(" {}{}{}", Name(operand.dtype), PrintDims(operand.dims),
                         operand.constant != nullptr ? "c" : "");
    }
  }
  return key;
}

// Memory for a step's operands: constants as they are, floats of moderate size, zeros for the rest.
class Operands {
 public:
  explicit Operands(const BindRequest& request) {
    for (const Operand& input : request.inputs) {
      if (!input.present()) {
        in_.push_back(nullptr);
      } else if (input.constant != nullptr) {
        if (input.constant->raw() == nullptr) throw ConstantDropped{};
        in_.push_back(tensors_.emplace_back(Aligned(*input.constant)).raw());
      } else {
        computed_.push_back(Filled(input));
        in_.push_back(computed_.back().raw());
      }
    }
    for (const Operand& output : request.outputs) {
      out_.push_back(tensors_.emplace_back(Filled(output)).raw());
    }
  }

  // Reads what other steps have just written when the step's turn comes.
  void Warm() const {
    volatile uint8_t sink = 0;
    for (const Tensor& tensor : computed_) {
      const auto* bytes = static_cast<const uint8_t*>(tensor.raw());
      for (int64_t i = 0; i < tensor.bytes(); i += 64) sink = sink + bytes[i];
    }
  }

  StepArgs Args(void* scratch, int threads) const {
    return {in_.data(), out_.data(), scratch, {&ThreadPool::Process(), threads}};
  }

 private:
  static Tensor Filled(const Operand& operand) {
    Tensor tensor(operand.dtype, operand.dims);
    if (tensor.bytes() > 0) std::memset(tensor.raw(), 0, static_cast<size_t>(tensor.bytes()));
    if (operand.dtype == DType::kFloat32) {
      float* data = tensor.data<float>();
      for (int64_t i = 0; i < tensor.size(); ++i) {
        data[i] = static_cast<float>(i % 17) * 0.125F - 1.0F;
      }
    }
    return tensor;
  }

  std::vector<Tensor> tensors_, computed_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
};

struct Candidate {
  std::string_view name;
  Bound bound;
  Tensor scratch;
  double seconds = 1e30;  // the least
  double spent = 0;
  bool is_own = false;  // the device's choice
};

// The candidates that accept the request when they are asked for by name.
std::vector<Candidate> Accepting(const BindRequest& request, PackCache& packs,
                                 std::span<const Implementation> implementations) {
  std::vector<Candidate> candidates;
  bool is_decided = false;
  for (const Implementation& implementation : implementations) {
    BindRequest wish{request.node,    request.inputs,   request.outputs,    packs,
                     request.threads, request.winograd, implementation.name};
    BindResult result = implementation.bind(wish);
    Bound* bound = std::get_if<Bound>(&result);
    if (bound == nullptr) continue;
    Candidate candidate{implementation.name, std::move(*bound), {}};
    candidate.scratch = Tensor(DType::kUInt8, {candidate.bound.scratch_bytes});
    wish.wanted = {};
    if (!is_decided && std::holds_alternative<Bound>(implementation.bind(wish))) {
      candidate.is_own = is_decided = true;
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

void Measure(const Operands& operands, int threads, std::span<Candidate* const> candidates) {
  const Tensor swept = MakeFilled(DType::kUInt8, {kSweptBytes}, 1);
  volatile uint64_t sink = 0;
  for (int round = 0; round <= kRounds; ++round) {
    for (Candidate* candidate : candidates) {
      if (round == 0) candidate->seconds = 1e30, candidate->spent = 0;
      if (candidate->spent > kMostSeconds) continue;
      const uint8_t* bytes = swept.data<uint8_t>();
      for (int64_t i = 0; i < kSweptBytes; i += 64) sink = sink + bytes[i];
      operands.Warm();
      const auto start = Clock::now();
      candidate->bound.run(operands.Args(candidate->scratch.raw(), threads));
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      if (round == 0) continue;  // pages, threads and branch predictors warm up
      candidate->seconds = std::min(candidate->seconds, seconds);
      candidate->spent += seconds;
    }
  }
}

// The device's own choice unless another is clearly faster, twice.
const Candidate& Fastest(const Operands& operands, int threads,
                         std::vector<Candidate>* candidates) {
  std::vector<Candidate*> all;
  for (Candidate& candidate : *candidates) all.push_back(&candidate);
  Measure(operands, threads, all);
  const auto faster = [](const Candidate* a, const Candidate* b) {
    return a->seconds < b->seconds;
  };
  Candidate* const best = *std::min_element(all.begin(), all.end(), faster);
  const auto own = std::find_if(all.begin(), all.end(), [](auto* each) { return each->is_own; });
  if (own == all.end()) return *best;
  const auto is_clear = [&] { return best->seconds < kClearlyFaster * (*own)->seconds; };
  if (!is_clear()) return **own;
  Measure(operands, threads, std::vector{best, *own});
  return is_clear() ? *best : **own;
}

}  // namespace

std::string Tuner::Choose(const BindRequest& request, std::span<const Implementation> candidates) {
  if (candidates.size() < 2) return "";
  std::lock_guard lock(mutex_);
  if (!measure_ && choices_.empty()) return "";
  const std::string key = KeyOf(request);
  if (auto it = choices_.find(key); it != choices_.end()) return it->second;
  if (!measure_) return "";
  PackCache packs;
  std::vector<Candidate> accepting = Accepting(request, packs, candidates);
  if (accepting.size() < 2) return "";
  const Candidate& best = Fastest(Operands(request), request.threads, &accepting);
  if (progress_) {
    std::string line = request.node.origin ? request.node.origin->name : "";
    line += fmt::format(" {}:", PrintDims(request.outputs[0].dims));
    for (const Candidate& candidate : accepting) {
      line += fmt::format(" {} {:.3f} ms{}", candidate.name, candidate.seconds * 1e3,
                          &candidate == &best ? " (chosen)" : "");
    }
    progress_(line);
  }
  return choices_.emplace(key, std::string(best.name)).first->second;
}

Tuner::Choices Tuner::choices() const {
  std::lock_guard lock(mutex_);
  return choices_;
}

}  // namespace sardonyx
