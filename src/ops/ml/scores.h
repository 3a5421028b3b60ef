#pragma once
// What the operators of ai.onnx.ml share: numbers per feature, rows of a batch, scores of classes.

#include "ops/ml/keys.h"

namespace sardonyx::ops::ml {

// x to compute with: float32 as it is, all other types as float64.
Val Precise(Val x);

// A list with a value for each feature (the last axis of x), or one for all; of the type of x.
Val FeatureValues(Lowering& op, Val x, const Tensor& list, std::string_view name);

// Input 0 as [N,F] of that type: a vector is one row.
Val Rows(Lowering& op, DType dtype);

// A list attribute of floats as float64 of these dimensions; an error if it has another length.
Val Matrix(Lowering& op, std::string_view name, std::vector<int64_t> dims);

// float32 [N,E] after the attribute post_transform. As in ONNX Runtime, a single column is changed
// by PROBIT alone.
Val PostTransform(Lowering& op, Val scores);
// The single column of a model of two classes becomes two: [1-s, s], or [-s, s] if `opposite`; of
// the transforms, only LOGISTIC (of -s and s) and PROBIT apply.
Val TwoClasses(Lowering& op, Val score, bool opposite);

// The position of the largest score of each row: int64 [N].
Val Largest(Val scores);
// The labels at positions [N], int64 or string.
Val LabelsAt(Lowering& op, const Tensor& labels, Val positions);

}  // namespace sardonyx::ops::ml
