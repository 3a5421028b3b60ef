#include "onnx/schema.h"

#include <set>

#include "base/dtype.h"
#include "model_builder.h"

namespace sardonyx::onnx {
namespace {

TEST(Schemas, AreAllThere) {
  EXPECT_EQ(AllSchemas().size(), 659u);
  std::set<std::string_view> domains;
  for (const OpSchema& schema : AllSchemas()) domains.insert(schema.domain);
  EXPECT_EQ(domains, (std::set<std::string_view>{"", "ai.onnx.ml", "ai.onnx.preview",
                                                 "ai.onnx.preview.training"}));
  EXPECT_EQ(NewestOpset(""), 28);
  EXPECT_EQ(NewestOpset("ai.onnx"), 28);
  EXPECT_EQ(NewestOpset("ai.onnx.ml"), 5);
  EXPECT_EQ(NewestOpset("com.example"), 0);
}

TEST(Schemas, AreFoundByOpset) {
  EXPECT_EQ(FindSchema("", "Add", 5)->since_version, 1);
  EXPECT_EQ(FindSchema("", "Add", 6)->since_version, 6);
  EXPECT_EQ(FindSchema("ai.onnx", "Add", 28)->since_version, 14);
  EXPECT_EQ(FindSchema("", "Gelu", 19), nullptr);
  EXPECT_EQ(FindSchema("", "Gelu", 20)->since_version, 20);
  EXPECT_EQ(FindSchema("", "NoSuchOperator", 20), nullptr);
  EXPECT_EQ(FindSchema("com.example", "Add", 20), nullptr);
  EXPECT_TRUE(FindSchema("", "Upsample", 10)->deprecated);
  EXPECT_EQ(SchemaVersions("", "Add").size(), 5u);
  for (const OpSchema& schema : AllSchemas()) {
    EXPECT_EQ(FindSchema(schema.domain, schema.name, schema.since_version), &schema);
  }
}

TEST(Schemas, OfContributedOperatorsAreFoundBehindTheStandards) {
  EXPECT_EQ(NewestOpset("com.microsoft"), 1);
  EXPECT_EQ(FindSchema("com.microsoft", "FusedMatMul", 1)->since_version, 1);
  EXPECT_EQ(FindSchema("com.microsoft", "NoSuchOperator", 1), nullptr);
  EXPECT_EQ(FindSchema("", "FusedMatMul", 20), nullptr);
  EXPECT_EQ(FindSchema("", "LayerNormalization", 16)->since_version, 1);
  EXPECT_EQ(FindSchema("", "LayerNormalization", 17)->since_version, 17);
  EXPECT_EQ(FindSchema("", "SimplifiedLayerNormalization", 20)->since_version, 1);
  for (const OpSchema& schema : ContributedSchemas()) {
    EXPECT_EQ(FindSchema(schema.domain, schema.name, 1), &schema) << schema.name;
    for (const FormalParameter& parameter : schema.inputs) {
      EXPECT_NE(TypesOf(schema, parameter), TypeSet()) << schema.name << " " << parameter.name;
    }
  }
}

TEST(Schemas, OfExperimentsReachToOpset9) {
  EXPECT_EQ(FindSchema("", "Affine", 9)->since_version, 1);
  EXPECT_TRUE(FindSchema("", "Affine", 10)->deprecated);
  EXPECT_EQ(FindSchema("", "MeanVarianceNormalization", 8)->since_version, 1);
  EXPECT_EQ(FindSchema("", "MeanVarianceNormalization", 9)->since_version, 9);
  EXPECT_EQ(FindSchema("", "ThresholdedRelu", 9)->since_version, 1);
  EXPECT_EQ(FindSchema("", "ThresholdedRelu", 10)->since_version, 10);
  for (const OpSchema& schema : ExperimentalSchemas()) {
    EXPECT_EQ(FindSchema("", schema.name, schema.since_version), &schema) << schema.name;
    for (const FormalParameter& parameter : schema.inputs) {
      EXPECT_NE(TypesOf(schema, parameter), TypeSet()) << schema.name << " " << parameter.name;
    }
  }
}

TEST(Schemas, HaveParametersAndTypes) {
  const OpSchema& gather_nd = *FindSchema("", "GatherND", 13);
  ASSERT_EQ(gather_nd.inputs.size(), 2u);
  EXPECT_EQ(gather_nd.inputs[1].type, "tensor(int64)");
  const TypeSet indices = TypesOf(gather_nd, gather_nd.inputs[1]);
  EXPECT_TRUE(AllowsTensor(indices, DType::kInt64));
  EXPECT_FALSE(AllowsTensor(indices, DType::kInt32));
  const OpSchema& concat = *FindSchema("", "Concat", 13);
  EXPECT_EQ(InputParameter(concat, 7), &concat.inputs[0]);
  EXPECT_EQ(concat.max_inputs, kUnbounded);
  EXPECT_EQ(OutputParameter(concat, 1), nullptr);
  const OpSchema& identity = *FindSchema("", "Identity", 28);
  const TypeSet any = TypesOf(identity, identity.inputs[0]);
  EXPECT_TRUE(AllowsTensor(any, DType::kInt2));
  EXPECT_FALSE(AllowsTensor(any, DType::kUndefined));
  EXPECT_TRUE(any.sequence >> static_cast<int>(DType::kString) & 1);
  EXPECT_TRUE(any.optional >> static_cast<int>(DType::kFloat32) & 1);
  const OpSchema& zip_map = *FindSchema("ai.onnx.ml", "ZipMap", 1);
  EXPECT_EQ(TypesOf(zip_map, zip_map.outputs[0]).sequence_map,
            1 << static_cast<int>(MapKind::kInt64ToFloat) |
                1 << static_cast<int>(MapKind::kStringToFloat));
  // No parameter of the standard is without a type.
  for (const OpSchema& schema : AllSchemas()) {
    for (const FormalParameter& parameter : schema.inputs) {
      EXPECT_NE(TypesOf(schema, parameter), TypeSet()) << schema.name << " " << parameter.name;
    }
  }
}

TEST(Schemas, HaveDefaults) {
  const AttributeSchema& epsilon =
      *FindSchema("", "BatchNormalization", 15)->FindAttribute("epsilon");
  EXPECT_TRUE(epsilon.has_default);
  EXPECT_EQ(epsilon.f, 1e-5f);
  EXPECT_EQ(FindSchema("", "Flatten", 13)->FindAttribute("axis")->i, 1);
  EXPECT_EQ(FindSchema("", "Conv", 11)->FindAttribute("auto_pad")->strings[0], "NOTSET");
  EXPECT_EQ(FindSchema("", "RNN", 14)->FindAttribute("activations")->strings.size(), 2u);
  EXPECT_TRUE(FindSchema("", "Cast", 13)->FindAttribute("to")->required);
}

TEST(Schemas, HaveFunctionBodies) {
  int bodies = 0;
  for (const OpSchema& schema : AllSchemas()) {
    for (const FunctionBodyEntry& entry : schema.bodies) {
      const FunctionProto function = ParseFunction(entry.bytes, schema.name);
      EXPECT_EQ(function.name.Get(), schema.name);
      EXPECT_FALSE(function.node.empty()) << schema.name;
      EXPECT_EQ(function.input.size(), schema.inputs.size()) << schema.name;
      EXPECT_FALSE(function.opset_import.empty()) << schema.name;
      ++bodies;
    }
  }
  EXPECT_GE(bodies, 42);
  const OpSchema& variance = *FindSchema("", "MeanVarianceNormalization", 13);
  ASSERT_EQ(variance.bodies.size(), 2u);
  EXPECT_EQ(FunctionBody(variance, 17), variance.bodies[0].bytes);
  EXPECT_EQ(FunctionBody(variance, 18), variance.bodies[1].bytes);
  const OpSchema& relu = *FindSchema("", "Relu", 14);
  EXPECT_EQ(FunctionBody(relu, 14), relu.bodies[0].bytes) << "the oldest, when all are newer";
  EXPECT_TRUE(FunctionBody(*FindSchema("", "Add", 14), 14).empty());
  EXPECT_TRUE(FindSchema("", "LayerNormalization", 17)->has_context_dependent_body);
}

void ExpectFault(const NodeProto& node, int64_t opset, std::vector<std::string> parts) {
  parts.push_back("model.onnx: " +
                  DescribeNode(node, FindSchema("", node.op_type.Get(), opset)->since_version));
  ExpectError(ErrorCode::kInvalidModel, parts, [&] {
    ValidateNode("model.onnx", node, *FindSchema("", node.op_type.Get(), opset));
  });
}

TEST(ValidateNode, AcceptsGoodNodes) {
  NodeProto node = MakeNode("Clip", {"x", "", "max"}, {"y"});
  EXPECT_NO_THROW(ValidateNode("m", node, *FindSchema("", "Clip", 13)));
  node = MakeNode("Flatten", {"x"}, {"y"});
  node.attribute.push_back(MakeInt("axis", 0));
  node.attribute.push_back(MakeInt("__tool_note", 0));
  EXPECT_NO_THROW(ValidateNode("m", node, *FindSchema("", "Flatten", 13)));
}

TEST(ValidateNode, ChecksNumbersOfInputsAndOutputs) {
  ExpectFault(MakeNode("MatMul", {"a"}, {"y"}, "mm"), 13,
              {"node 'mm' (MatMul-13)", "has 1 inputs, but MatMul takes 2 (A, B)"});
  ExpectFault(MakeNode("Relu", {"a", "b"}, {"y"}), 13,
              {"node that makes 'y' (Relu-13)", "has 2 inputs", "takes 1"});
  ExpectFault(MakeNode("MatMul", {"a", ""}, {"y"}), 13, {"required input 1 'B' is left out"});
  ExpectFault(MakeNode("Concat", {}, {"y"}), 13, {"at least 1"});
  ExpectFault(MakeNode("Relu", {"a"}, {"y", "z"}), 13, {"has 2 outputs"});
}

TEST(ValidateNode, ChecksAttributes) {
  NodeProto node = MakeNode("Flatten", {"x"}, {"y"}, "f");
  node.attribute.push_back(MakeInt("axes", 1));
  ExpectFault(node, 13, {"attribute 'axes' is unknown", "Flatten of opset 13 has: axis"});
  node.attribute = {MakeInt("axis", 1), MakeInt("axis", 2)};
  ExpectFault(node, 13, {"'axis' is given twice"});
  node.attribute = {MakeInt("axis", 1)};
  node.attribute[0].type = static_cast<int32_t>(AttributeType::kFloat);
  ExpectFault(node, 13, {"'axis' has type FLOAT, but must be INT"});
  node.attribute[0].type = static_cast<int32_t>(AttributeType::kInt);
  node.attribute[0].s = "1";
  ExpectFault(node, 13, {"'axis' is declared INT, but holds a value of type STRING"});
  node.attribute = {MakeInt("axis", 1)};
  node.attribute[0].ref_attr_name = "a";
  ExpectFault(node, 13, {"refers to the attribute 'a' of a function"});
  EXPECT_NO_THROW(ValidateNode("m", node, *FindSchema("", "Flatten", 13), true));
  ExpectFault(MakeNode("Cast", {"x"}, {"y"}), 13, {"required attribute 'to' of type INT"});
  node = MakeNode("ConstantOfShape", {"x"}, {"y"});
  node.attribute.emplace_back().name = "value";
  node.attribute[0].type = static_cast<int32_t>(AttributeType::kTensor);
  ExpectFault(node, 13, {"'value' of type TENSOR has no value"});
}

TEST(ValidateNode, InfersAttributeTypesOfOldFiles) {
  NodeProto node = MakeNode("Flatten", {"x"}, {"y"});
  node.attribute.push_back(MakeInt("axis", 1));
  node.attribute[0].type.reset();
  EXPECT_NO_THROW(ValidateNode("m", node, *FindSchema("", "Flatten", 1)));
}

TEST(ValidateNode, RefusesDeprecatedOperators) {
  ExpectFault(MakeNode("Upsample", {"x", "s"}, {"y"}), 13, {"deprecated since opset 10"});
}

}  // namespace
}  // namespace sardonyx::onnx
