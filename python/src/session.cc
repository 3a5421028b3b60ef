#include "session.h"

#include <string>
#include <utility>
#include <vector>

#include "dtypes.h"
#include "nanobind/stl/function.h"
#include "nanobind/stl/map.h"
#include "nanobind/stl/pair.h"
#include "nanobind/stl/string.h"
#include "nanobind/stl/string_view.h"
#include "nanobind/stl/vector.h"
#include "sardonyx/sardonyx.hpp"
#include "values.h"

namespace sardonyx::python {
namespace {

namespace nb = nanobind;

// Keeps a Python object from any thread.
std::shared_ptr<const void> Keep(nb::object object) {
  return {object.release().ptr(), [](const void* pointer) {
            if (Py_IsInitialized() == 0) return;
            nb::gil_scoped_acquire gil;
            Py_DECREF(static_cast<PyObject*>(const_cast<void*>(pointer)));
          }};
}

// Lets the engine work without the interpreter's lock, also while it is destroyed: another thread
// may be waiting for the lock and hold what the engine waits for.
class PySession {
 public:
  PySession(const std::string& path, const Options& options) : session_(path, options) { Index(); }
  PySession(std::string_view bytes, std::shared_ptr<const void> owner, const Options& options)
      : session_(bytes, std::move(owner), options) {
    Index();
  }

  // From the names of inputs to their values, and the same of the outputs named. `all`: these are
  // the model's own, in order.
  nb::dict Run(const nb::dict& inputs, const nb::list& outputs, bool all) {
    NamedData data;
    data.reserve(inputs.size());
    for (auto [key, value] : inputs) {
      if (!PyUnicode_Check(key.ptr())) {
        throw Error(ErrorCode::kInvalidArgument,
                    std::string("names of inputs are str, not ") + Py_TYPE(key.ptr())->tp_name);
      }
      std::string name = BytesOf(key);
      Datum datum = FromPython(value, DeclaredType(name), name);
      data.emplace_back(std::move(name), std::move(datum));
    }
    std::vector<std::string> names;
    if (!all) {
      for (nb::handle output : outputs) names.push_back(BytesOf(output));
    }
    std::vector<Datum> values;
    {
      nb::gil_scoped_release free;
      values = session_.Run(data, names);
    }
    nb::dict result;
    for (size_t i = 0; i < values.size(); ++i) result[outputs[i]] = ToPython(values[i]);
    return result;
  }

  Session& session() { return session_; }

 private:
  void Index() {
    for (const ValueInfo& info : session_.inputs()) types_.emplace_back(info.name, info.type);
  }
  const std::string& DeclaredType(const std::string& name) const {
    static const std::string unknown;
    for (const auto& [input, type] : types_) {
      if (input == name) return type;
    }
    return unknown;
  }

  Session session_;
  std::vector<std::pair<std::string, std::string>> types_;
};

Options MakeOptions(int threads, std::vector<std::string> disabled_passes, int max_plans,
                    std::string external_data_folder, nb::object trace_passes, bool measure,
                    nb::object progress, bool recompile, bool winograd) {
  Options options;
  options.threads = threads;
  options.disabled_passes = std::move(disabled_passes);
  options.max_plans = max_plans;
  options.external_data_folder = std::move(external_data_folder);
  if (!trace_passes.is_none()) {
    auto kept = Keep(std::move(trace_passes));
    options.trace_passes = [kept](std::string_view pass, const std::string& text) {
      nb::gil_scoped_acquire gil;
      nb::handle function(static_cast<PyObject*>(const_cast<void*>(kept.get())));
      function(TextOf(pass), TextOf(text));
    };
  }
  options.tuning = measure ? Tuning::kMeasure : Tuning::kEstimate;
  if (!progress.is_none()) {
    auto kept = Keep(std::move(progress));
    options.progress = [kept](const std::string& line) {
      nb::gil_scoped_acquire gil;
      nb::handle(static_cast<PyObject*>(const_cast<void*>(kept.get())))(TextOf(line));
    };
  }
  options.recompile = recompile;
  options.winograd = winograd;
  return options;
}

nb::tuple ShapeOf(const ValueInfo& info) {
  nb::list shape;
  for (const Dimension& dim : info.shape) {
    if (dim.value >= 0) {
      shape.append(dim.value);
    } else if (!dim.symbol.empty()) {
      shape.append(TextOf(dim.symbol));
    } else {
      shape.append(nb::none());
    }
  }
  return nb::tuple(shape);
}

// (name, type, dtype or None, shape or None)
nb::tuple DescribeValue(const ValueInfo& info) {
  nb::object dtype = nb::none();
  if (info.dtype == DType::kString) {
    dtype = nb::str("str");
  } else if (info.dtype != DType::kUndefined) {
    dtype = nb::str(LayoutOf(info.dtype).numpy);
  }
  nb::object shape = nb::none();
  if (info.has_shape) shape = ShapeOf(info);
  return nb::make_tuple(TextOf(info.name), TextOf(info.type), dtype, shape);
}

nb::list DescribeValues(const std::vector<ValueInfo>& values) {
  nb::list result;
  for (const ValueInfo& info : values) result.append(DescribeValue(info));
  return result;
}

nb::dict MetadataOf(const std::map<std::string, std::string>& metadata) {
  nb::dict result;
  for (const auto& [key, value] : metadata) result[TextOf(key)] = TextOf(value);
  return result;
}

nb::list StepsOf(const Session& session) {
  nb::list steps;
  for (const Session::StepTime& step : session.ProfileSteps()) {
    nb::dict row;
    row["node"] = TextOf(step.node);
    row["op_type"] = TextOf(step.op_type);
    row["core_op"] = TextOf(step.core_op);
    row["implementation"] = TextOf(step.implementation);
    row["shape"] = TextOf(step.shape);
    row["start_ns"] = step.start_ns;
    row["duration_ns"] = step.duration_ns;
    steps.append(row);
  }
  return steps;
}

}  // namespace

nb::dict InspectModel(const nb::str& path) {
  ModelSummary summary;
  {
    const std::string file = BytesOf(path);
    nb::gil_scoped_release free;
    summary = Inspect(file);
  }
  nb::dict result;
  result["ir_version"] = summary.ir_version;
  result["producer"] = TextOf(summary.producer);
  result["opsets"] = nb::cast(summary.opsets);
  result["inputs"] = DescribeValues(summary.inputs);
  result["outputs"] = DescribeValues(summary.outputs);
  nb::dict operators;
  for (const auto& [name, count] : summary.operators) operators[TextOf(name)] = count;
  result["operators"] = operators;
  result["parameters"] = summary.parameters;
  result["parameter_bytes"] = summary.parameter_bytes;
  result["functions"] = summary.functions;
  nb::list unsupported;
  for (const std::string& line : summary.unsupported) unsupported.append(TextOf(line));
  result["unsupported"] = unsupported;
  result["metadata"] = MetadataOf(summary.metadata);
  return result;
}

void CompileModel(const nb::str& model, const nb::str& engine, const Options& options,
                  const std::vector<NamedShapes>& shapes, bool compact) {
  const std::string from = BytesOf(model), to = BytesOf(engine);
  nb::gil_scoped_release free;
  Compile(from, to, options, {shapes, compact});
}

void BindSession(nb::module_& module) {
  nb::class_<Options>(module, "Options")
      .def(
          "__init__",
          [](Options* self, int threads, std::vector<std::string> disabled_passes, int max_plans,
             const nb::str& external_data_folder, nb::object trace_passes, bool measure,
             nb::object progress, bool recompile, bool winograd) {
            new (self) Options(MakeOptions(threads, std::move(disabled_passes), max_plans,
                                           BytesOf(external_data_folder), std::move(trace_passes),
                                           measure, std::move(progress), recompile, winograd));
          },
          nb::arg("threads"), nb::arg("disabled_passes"), nb::arg("max_plans"),
          nb::arg("external_data_folder"), nb::arg("trace_passes").none(), nb::arg("measure"),
          nb::arg("progress").none(), nb::arg("recompile"), nb::arg("winograd"));
  nb::class_<PySession>(module, "Session")
      .def("__init__",
           [](PySession* self, const nb::str& path, const Options& options) {
             const std::string file = BytesOf(path);
             nb::gil_scoped_release free;
             new (self) PySession(file, options);
           })
      .def("__init__",
           [](PySession* self, nb::bytes bytes, const Options& options) {
             const std::string_view view(bytes.c_str(), bytes.size());
             auto owner = Keep(std::move(bytes));
             nb::gil_scoped_release free;
             new (self) PySession(view, std::move(owner), options);
           })
      .def("run", &PySession::Run, nb::arg("inputs"), nb::arg("outputs"), nb::arg("all"))
      .def("inputs", [](PySession& self) { return DescribeValues(self.session().inputs()); })
      .def("outputs", [](PySession& self) { return DescribeValues(self.session().outputs()); })
      .def("metadata", [](PySession& self) { return MetadataOf(self.session().metadata()); })
      .def("threads", [](PySession& self) { return self.session().options().threads; })
      .def("start_profile", [](PySession& self) { self.session().StartProfile(); })
      .def("stop_profile", [](PySession& self) { self.session().StopProfile(); })
      .def("profile_trace", [](PySession& self) { return TextOf(self.session().ProfileTrace()); })
      .def("profile_summary",
           [](PySession& self) { return TextOf(self.session().ProfileSummary()); })
      .def("profile_steps", [](PySession& self) { return StepsOf(self.session()); })
      .def("graph_text", [](PySession& self) { return TextOf(self.session().GraphText()); })
      .def("explain", [](PySession& self,
                         const std::vector<std::pair<std::string, std::vector<int64_t>>>& shapes) {
        std::string text;
        {
          nb::gil_scoped_release free;
          text = self.session().Explain(shapes);
        }
        return TextOf(text);
      });
}

}  // namespace sardonyx::python
