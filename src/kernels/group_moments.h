#pragma once
// Mean and deviation of groups of channels that lie last.

#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"

namespace sardonyx {

// Mean of some values, and the sum of the squares of what they differ from it.
struct Moments {
  double mean = 0, squares = 0;
};

// Joins the moments of so many pixels, `each` values a pixel, with those of more (Chan, Golub and
// LeVeque, 1983).
class JoinMoments {
 public:
  JoinMoments(int64_t pixels, int64_t more, int64_t each)
      : share_(static_cast<double>(more) / static_cast<double>(pixels + more)),
        weight_(share_ * static_cast<double>(pixels * each)) {}

  Moments operator()(const Moments& of, const Moments& others) const {
    const double apart = others.mean - of.mean;
    return {of.mean + apart * share_, of.squares + others.squares + apart * apart * weight_};
  }

 private:
  double share_, weight_;
};

// Of x [batch, pixels, channels] over the pixels and the channels of each group:
// mean[n * channels + c] and factor[...] = scale[c] / sqrt(variance + epsilon), the variance
// divided by the number of elements. None of the sizes is 0; groups divides channels.
template <typename T>
struct GroupMomentsArgs {
  const T* x;
  const T* scale;  // [channels] or null
  T *mean, *factor;
  int64_t batch, pixels, channels, groups;
  double epsilon;
};
size_t GroupMomentsScratchBytes(int64_t batch, int64_t pixels, int64_t channels, int64_t groups,
                                int threads);
void GroupMoments(const GroupMomentsArgs<float>& args, void* scratch, const Parallel& par);
void GroupMoments(const GroupMomentsArgs<double>& args, void* scratch, const Parallel& par);

}  // namespace sardonyx
