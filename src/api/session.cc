#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "api/check_inputs.h"
#include "api/describe.h"
#include "api/engine_source.h"
#include "base/out_of_memory.h"
#include "base/thread_pool.h"
#include "devices/cpu/cpu_device.h"
#include "engine/engine_file.h"
#include "ir/text.h"
#include "kernels/targets.h"
#include "onnx/deferred.h"
#include "onnx/external_data.h"
#include "onnx/importer.h"
#include "onnx/validate.h"
#include "passes/pass.h"
#include "runtime/fold.h"
#include "runtime/program.h"
#include "sardonyx/sardonyx.hpp"

namespace sardonyx {
namespace {

std::map<std::string, std::string> Metadata(const onnx::ModelProto& model) {
  std::map<std::string, std::string> result;
  auto set = [&](const char* name, std::string_view value) {
    if (!value.empty()) result[name] = value;
  };
  set("producer_name", model.producer_name.Get());
  set("producer_version", model.producer_version.Get());
  set("domain", model.domain.Get());
  set("description", model.doc_string.Get());
  set("graph_name", model.graph->name.Get());
  set("graph_description", model.graph->doc_string.Get());
  if (model.model_version) result["model_version"] = std::to_string(model.model_version.Get());
  for (const auto& property : model.metadata_props) {
    result[std::string(property.key.Get())] = property.value.Get();
  }
  return result;
}

}  // namespace

// What a model is compiled for.
struct Form {
  std::vector<std::string> outputs;     // requested; empty: the model's own
  std::vector<std::string> overridden;  // inputs that are given in place of their defaults
  bool names_apart = false;             // onnx::ImportOptions

  bool operator==(const Form&) const = default;
};

// A compiled form of the model.
struct Compiled {
  Form form;
  std::vector<std::string> input_names;
  std::vector<std::string> output_names;
  std::vector<PassRecord> passes;
  std::unique_ptr<Program> program;
};

struct Session::State {
  std::string name;                             // for messages
  std::shared_ptr<const onnx::ModelFile> file;  // null: an engine file that has not needed it yet
  std::optional<onnx::ModelProto> messages;     // of the file, until the first import takes them
  std::shared_ptr<engine::EngineFile> engine;   // null: loaded from a model
  bool for_engine = false;                      // compiled to be written, not to be run
  bool compact = false;
  Options options;
  std::shared_ptr<Tuner> tuner;
  std::vector<ValueInfo> inputs, outputs;
  std::map<std::string, ValueInfo> declared;  // all inputs, those with a default as well
  std::vector<std::string> default_inputs;
  std::map<std::string, std::string> metadata;
  std::shared_ptr<PackCache> packs;
  std::shared_ptr<Compiled> main;

  std::mutex model_mutex;  // of `file`, if there is an engine
  std::mutex mutex;        // of the members below
  std::vector<std::shared_ptr<Compiled>> others;
  std::shared_ptr<Profiler> profiler;  // of the last or running profile
  std::atomic<bool> profiling = false;

  void Load(const std::shared_ptr<onnx::ModelFile>& model_file, const Options& given) {
    file = model_file;
    name = file->name;
    SetOptions(given, {});
    metadata = Metadata(file->model);
    for (const auto& output : file->model.graph->output) outputs.push_back(DescribeValue(output));
    packs = std::make_shared<PackCache>([this](const Tensor& tensor) { return FileOf(tensor); });
    for (const auto& input : file->model.graph->input) {
      declared[std::string(input.name.Get())] = DescribeValue(input);
    }
    messages = std::move(model_file->model);
    main = Compile({});
    onnx::DropPages(*file);
    for (const std::string& name : main->input_names) inputs.push_back(declared.at(name));
  }

  void SetOptions(const Options& given, const Tuner::Choices& choices) {
    options = given;
    if (options.threads < 0 || options.threads > 1024) {
      Fail(ErrorCode::kInvalidArgument, "threads must be 0 (all) to 1024, is {}", options.threads);
    }
    if (options.threads == 0) options.threads = ThreadPool::AvailableThreads();
    const bool measure = options.tuning == Tuning::kMeasure;
    if (measure || !choices.empty()) {
      tuner = std::make_shared<Tuner>(measure, options.progress, choices);
    }
  }

  void LoadEngine(std::shared_ptr<engine::EngineFile> given_engine, const std::string& path,
                  const Options& given) {
    engine = std::move(given_engine);
    name = path;
    engine->Decode(onnx::CheckDeferred);
    SetOptions(given, engine->choices());
    // The graph is what these left of it; should it be made again, they hold again.
    options.disabled_passes = engine->provenance().disabled_passes;
    options.winograd = given.winograd && engine->provenance().winograd;
    const engine::Description& description = engine->description();
    metadata = description.metadata;
    outputs = description.outputs;
    default_inputs = description.default_inputs;
    for (const ValueInfo& info : description.declared) declared[info.name] = info;
    for (const std::string& input : description.input_names) inputs.push_back(declared.at(input));
    packs = std::make_shared<PackCache>(
        nullptr, [file = engine](const Tensor& constant) { file->Check(constant); });
    main = std::make_shared<Compiled>();
    main->input_names = description.input_names;
    for (const ValueInfo& output : outputs) main->output_names.push_back(output.name);
    MakeProgram(engine->graph(), main.get());
    engine->GivePacks(*main->program);
  }

  // The model, which an engine file needs for what it does not hold.
  std::shared_ptr<const onnx::ModelFile> Model(std::string_view why) {
    if (engine == nullptr) return file;
    std::lock_guard lock(model_mutex);
    if (file == nullptr) file = onnx::OpenModel(FindSource(engine->provenance(), name, why));
    return file;
  }

  // The file of the model in which a tensor lies; null without one, and for an engine file, whose
  // pages other processes may be using.
  std::shared_ptr<const MappedFile> FileOf(const Tensor& tensor) const {
    return engine != nullptr ? nullptr : onnx::MappedFileOf(*file, tensor.raw(), tensor.bytes());
  }

  onnx::ImportedModel Import(const Form& form) {
    const auto model = Model(
        "the engine has no values but its outputs, no inputs in place of their defaults, no two "
        "sizes of one name, and weights for the shapes it was compiled for alone");
    const std::vector<std::string>& wanted = form.outputs;
    const onnx::ImportOptions choice{.extra_outputs = wanted,
                                     .overridden_inputs = form.overridden,
                                     .names_apart = form.names_apart};
    onnx::ImportedModel imported;
    if (engine != nullptr) {
      imported = onnx::ImportModel(model, choice);
    } else {
      auto parsed = messages ? *std::exchange(messages, {}) : onnx::ParseAgain(*model);
      imported = onnx::ImportModel(*model, std::move(parsed), choice);
    }
    if (!wanted.empty()) {
      // Only what is asked for is computed.
      const size_t own = imported.output_names.size() - wanted.size();
      imported.output_names.erase(imported.output_names.begin(),
                                  imported.output_names.begin() + own);
      imported.graph->outputs.erase(imported.graph->outputs.begin(),
                                    imported.graph->outputs.begin() + own);
    }
    return imported;
  }

  std::vector<PassRecord> OptimizeMain(Graph& graph) const {
    OptimizeOptions passes;
    passes.disabled = options.disabled_passes;
    FoldMemory folded;
    passes.fold = [&](const Node& node, const std::vector<Tensor>& arguments) {
      auto results =
          FoldOnDevice(node, arguments, CpuDevice(), options.threads, options.winograd, folded);
      for (const Tensor& argument : arguments) {
        const auto mapped = argument.defined() ? FileOf(argument) : nullptr;
        if (mapped != nullptr) mapped->DropPages(argument.raw(), argument.bytes());
      }
      return results;
    };
    if (options.trace_passes) {
      passes.trace = [&](std::string_view pass, const Graph& now) {
        options.trace_passes(pass, PrintGraph(now));
      };
    }
    return Optimize(graph, passes);
  }

  // Memory of the model's file, or bytes that the caller keeps.
  bool IsExternal(const Tensor& tensor) const {
    if (for_engine) return false;
    if (engine != nullptr) return engine->Holds(tensor);
    return tensor.owner() == file->owner || FileOf(tensor) != nullptr;
  }

  std::shared_ptr<Compiled> Compile(const Form& form) {
    auto compiled = std::make_shared<Compiled>();
    compiled->form = form;
    onnx::ImportedModel imported = Import(form);
    compiled->input_names = imported.input_names;
    compiled->output_names = imported.output_names;
    if (form == Form()) default_inputs = imported.default_inputs;
    WithContext(name, [&] {
      compiled->passes = OptimizeMain(*imported.graph);
      MakeProgram(std::move(imported.graph), compiled.get());
    });
    return compiled;
  }

  void MakeProgram(std::shared_ptr<Graph> graph, Compiled* compiled) {
    ProgramOptions program;
    program.tuner = tuner;
    program.threads = options.threads;
    program.winograd = options.winograd;
    program.max_plans = static_cast<size_t>(std::max(options.max_plans, 1));
    program.optimize = [disabled = options.disabled_passes](Graph& graph) {
      Optimize(graph, {.disabled = disabled, .fold = nullptr, .trace = nullptr});
    };
    program.is_external = [this](const Tensor& tensor) { return IsExternal(tensor); };
    program.restore = [this, form = compiled->form]() -> std::shared_ptr<Graph> {
      onnx::ImportedModel again = Import(form);
      OptimizeMain(*again.graph);
      return std::move(again.graph);
    };
    if (for_engine && !compact && !IsFixed(*graph)) program.restore = nullptr;  // all are kept
    compiled->program = std::make_unique<Program>(std::move(graph), CpuDevice(), packs, program);
  }

  static bool IsFixed(const Graph& graph) {
    return std::all_of(graph.inputs.begin(), graph.inputs.end(),
                       [](const Value* input) { return input->fact.static_shape(); });
  }

  // The compiled form that is not the main one, made if it is new.
  std::shared_ptr<Compiled> Find(const Form& form) {
    std::lock_guard lock(mutex);
    for (size_t i = 0; i < others.size(); ++i) {
      if (others[i]->form == form) {
        std::rotate(others.begin(), others.begin() + i, others.begin() + i + 1);
        return others.front();
      }
    }
    others.insert(others.begin(), Compile(form));
    if (others.size() > 8) others.pop_back();
    return others.front();
  }

  // Dimensions of all inputs for shapes given by name. What is not given is as declared; `ones`: 1
  // where nothing is declared, else an error.
  std::vector<std::vector<int64_t>> Resolve(const NamedShapes& shapes, bool ones) const {
    Program& program = *main->program;
    const std::vector<Value*>& formals = program.graph().inputs;
    std::vector<std::optional<std::vector<int64_t>>> dims(formals.size());
    InputSizes sizes;
    for (const auto& [name, shape] : shapes) {
      const size_t index = IndexOf(*main, name);
      CheckShape(formals[index]->fact, declared.at(name), shape, *program.graph().shared_symbols(),
                 &sizes);
      dims[index] = shape;
    }
    if (!sizes.conflict.empty()) {
      Fail(ErrorCode::kInvalidArgument, "{}; one name is one size", sizes.conflict);
    }
    std::vector<std::vector<int64_t>> all;
    for (size_t i = 0; i < formals.size(); ++i) {
      const Fact& fact = formals[i]->fact;
      if (!dims[i] && fact.type.is_tensor() && (ones ? !fact.ranked() : !fact.static_shape())) {
        Fail(ErrorCode::kInvalidArgument, "the shape of input '{}' is not fixed: give one",
             main->input_names[i]);
      }
      if (!dims[i] && fact.type.is_tensor()) {
        dims[i].emplace();
        for (Dim dim : *fact.shape) {
          const bool given = !dim.known() && sizes.named.contains(dim.symbol());
          dims[i]->push_back(dim.known() ? dim.value()
                             : given     ? sizes.named.at(dim.symbol()).first
                                         : 1);
        }
      }
      all.push_back(dims[i].value_or(std::vector<int64_t>()));
    }
    return all;
  }

  void PlanForSaving(const NamedShapes& shapes) {
    const auto dims = Resolve(shapes, true);
    try {
      (void)main->program->PlanFor(dims);
    } catch (const Error& error) {
      for (size_t i = 0; i < dims.size() && shapes.empty(); ++i) {
        const Fact& fact = main->program->graph().inputs[i]->fact;
        if (!fact.type.is_tensor() || fact.static_shape()) continue;
        Fail(error.code(), "{}; the shape of input '{}' is not fixed, {} was planned: give one",
             error.what(), main->input_names[i], PrintDims(dims[i]));
      }
      throw;
    }
  }

  // Writes what was compiled, with weights packed for the plans of these shapes.
  void Save(const std::string& path, const CompileOptions& compile) {
    engine::Provenance provenance;
    provenance.machine = MachineName();
    provenance.build = engine::BuildName();
    provenance.disabled_passes = options.disabled_passes;
    provenance.shapes = compile.shapes;
    provenance.compact = compile.compact;
    provenance.measured = options.tuning == Tuning::kMeasure;
    provenance.winograd = options.winograd;
    if (provenance.shapes.empty()) provenance.shapes.emplace_back();
    for (const NamedShapes& shapes : provenance.shapes) PlanForSaving(shapes);
    provenance.sources = RememberSources(*file, path);
    engine::Description description;
    for (const auto& [input, info] : declared) description.declared.push_back(info);
    description.outputs = outputs;
    description.input_names = main->input_names;
    description.default_inputs = default_inputs;
    description.metadata = metadata;
    engine::WriteEngine(path, provenance, description, *main->program, tuner.get());
  }

  std::string Explain(const NamedShapes& shapes) const {
    std::string text = sardonyx::Explain(*main->program->PlanFor(Resolve(shapes, false)));
    for (const PassRecord& record : main->passes) {
      text += fmt::format("pass {}: {} changes, {:.2f} ms\n", record.name, record.changes,
                          record.milliseconds);
      for (const std::string& miss : record.near_misses) text += "  near miss: " + miss + "\n";
    }
    return text;
  }

  static size_t IndexOf(const Compiled& compiled, const std::string& name) {
    const std::vector<std::string>& names = compiled.input_names;
    auto it = std::find(names.begin(), names.end(), name);
    if (it == names.end()) {
      Fail(ErrorCode::kInvalidArgument, "the model has no input '{}'; its inputs are {}", name,
           fmt::join(names, ", "));
    }
    return static_cast<size_t>(it - names.begin());
  }

  // Some of the model's outputs by running for all of them, which needs no other form of the model;
  // nothing if other values are wanted.
  std::optional<std::vector<Datum>> RunAndPick(const NamedData& given,
                                               const std::vector<std::string>& wanted) {
    std::vector<size_t> positions;
    for (const std::string& output : wanted) {
      const auto& names = main->output_names;
      const auto it = std::find(names.begin(), names.end(), output);
      if (it == names.end()) return std::nullopt;
      positions.push_back(static_cast<size_t>(it - names.begin()));
    }
    const std::vector<Datum> all = Run(given, {});
    std::vector<Datum> picked;
    for (const size_t position : positions) picked.push_back(all[position]);
    return picked;
  }

  std::vector<Datum> Run(const NamedData& given, const std::vector<std::string>& wanted) {
    std::vector<std::string> overridden;
    for (const auto& [name, datum] : given) {
      const bool is_default =
          std::find(default_inputs.begin(), default_inputs.end(), name) != default_inputs.end();
      if (is_default) overridden.push_back(name);
    }
    std::sort(overridden.begin(), overridden.end());
    overridden.erase(std::unique(overridden.begin(), overridden.end()), overridden.end());
    if (engine != nullptr && !wanted.empty() && overridden.empty()) {
      if (auto picked = RunAndPick(given, wanted)) return *std::move(picked);
    }
    const bool is_own = overridden.empty() && (wanted.empty() || wanted == main->output_names);
    std::shared_ptr<Compiled> compiled = is_own ? main : FindNamed({wanted, overridden});
    std::vector<Datum> inputs;
    const std::string conflict =
        WithContext(name, [&] { return BindInputs(*compiled, given, &inputs); });
    const auto run = [&] {
      return NamingMemory("the run", [&] { return RunForm(*compiled, inputs); });
    };
    if (conflict.empty()) return WithContext(name, run);
    // Exporters call sizes alike that are not, and what a model names binds no other runtime. If
    // they must be alike after all, an operator says so.
    compiled = WithContext(conflict, [&] {
      return FindNamed({is_own ? std::vector<std::string>() : wanted, overridden, true});
    });
    try {
      return run();
    } catch (const Error& error) {
      const bool of_model = error.code() == ErrorCode::kInvalidModel;  // but for what was given
      Fail(of_model ? ErrorCode::kInvalidArgument : error.code(), "{}: {}: {}", name, conflict,
           error.what());
    }
  }

  // Importing a model names it; an engine file has to say that it wanted one.
  std::shared_ptr<Compiled> FindNamed(const Form& form) {
    const auto find = [&] { return Find(form); };
    return NamingMemory("another form of the model",
                        [&] { return engine != nullptr ? WithContext(name, find) : find(); });
  }

  // The inputs in the form's order. Returns InputSizes::conflict.
  std::string BindInputs(const Compiled& compiled, const NamedData& given,
                         std::vector<Datum>* bound) const {
    const Graph& graph = compiled.program->graph();
    std::vector<Datum>& inputs = *bound;
    inputs.resize(graph.inputs.size());
    std::vector<bool> seen(inputs.size());
    InputSizes sizes;
    for (const auto& [name, datum] : given) {
      const size_t index = IndexOf(compiled, name);
      if (seen[index]) Fail(ErrorCode::kInvalidArgument, "input '{}' is given twice", name);
      CheckInput(graph.inputs[index]->fact, declared.at(name), datum, *graph.shared_symbols(),
                 &sizes);
      seen[index] = true;
      inputs[index] = datum;
    }
    for (size_t i = 0; i < seen.size(); ++i) {
      if (!seen[i] && graph.inputs[i]->fact.type.kind != Type::Kind::kOptional) {
        Fail(ErrorCode::kInvalidArgument, "input '{}' is missing", compiled.input_names[i]);
      }
    }
    return std::move(sizes.conflict);
  }

  std::vector<Datum> RunForm(const Compiled& compiled, const std::vector<Datum>& inputs) {
    std::shared_ptr<Profiler> recorder;
    if (profiling) {
      std::lock_guard lock(mutex);
      recorder = profiler;
    }
    return compiled.program->Run(inputs, {.profiler = recorder.get()});
  }
};

void Compile(const std::string& model, const std::string& engine, const Options& options,
             const CompileOptions& compile) {
  Session::State state;
  state.for_engine = true;
  state.compact = compile.compact;
  if (IsEngineFile(model)) {
    Fail(ErrorCode::kInvalidArgument, "{}: is an engine file already; give the model", model);
  }
  NamingMemory("compiling " + model, [&] {
    state.Load(onnx::OpenModel(model), options);
    WithContext(model, [&] { state.Save(engine, compile); });
  });
}

namespace {

// An engine file that can be used, compiled again if need be and wanted.
std::shared_ptr<engine::EngineFile> OpenEngine(const std::shared_ptr<const MappedFile>& file,
                                               const std::string& path, const Options& options) {
  auto engine = engine::EngineFile::Open(file->bytes(), file, path);
  std::string why = engine->Mismatch(MachineName());
  if (why.empty() && options.recompile) {
    try {
      engine->Decode(onnx::CheckDeferred);
      engine->CheckAll();
    } catch (const Error& error) {
      why = error.what();
    }
    if (why.empty()) return engine::EngineFile::Open(file->bytes(), file, path);
  }
  if (why.empty()) return engine;
  const engine::Provenance& provenance = engine->provenance();
  if (!options.recompile) {
    Fail(ErrorCode::kUnsupported,
         "{}: compile it again with 'sardonyx compile', or let loading do so (option recompile)",
         why);
  }
  const std::string model = FindSource(provenance, path, why);
  Options again = options;
  again.disabled_passes = provenance.disabled_passes;
  if (provenance.measured) again.tuning = Tuning::kMeasure;
  again.winograd = provenance.winograd;
  Compile(model, path, again, {provenance.shapes, provenance.compact});
  const auto fresh = MappedFile::Open(path);
  return engine::EngineFile::Open(fresh->bytes(), fresh, path);
}

}  // namespace

Session::Session(const std::string& path, const Options& options)
    : state_(std::make_shared<State>()) {
  const auto file = MappedFile::Open(path);
  NamingMemory("loading " + path, [&] {
    if (engine::IsEngine(file->bytes())) {
      WithContext(path,
                  [&] { state_->LoadEngine(OpenEngine(file, path, options), path, options); });
    } else {
      state_->Load(onnx::OpenModel(path), options);
    }
  });
}

Session::Session(std::string_view bytes, std::shared_ptr<const void> owner, const Options& options)
    : state_(std::make_shared<State>()) {
  if (engine::IsEngine(bytes)) {
    Fail(ErrorCode::kInvalidArgument,
         "these bytes are of an engine file: load it from its path, where it is mapped");
  }
  onnx::ReadOptions read;
  read.external_data_folder = options.external_data_folder;
  NamingMemory("loading the model",
               [&] { state_->Load(onnx::ParseModel(bytes, std::move(owner), read), options); });
}

const std::vector<ValueInfo>& Session::inputs() const { return state_->inputs; }
const std::vector<ValueInfo>& Session::outputs() const { return state_->outputs; }
const std::map<std::string, std::string>& Session::metadata() const { return state_->metadata; }
const Options& Session::options() const { return state_->options; }

std::vector<Datum> Session::Run(const NamedData& inputs, const std::vector<std::string>& outputs) {
  return state_->Run(inputs, outputs);
}

void Session::StartProfile() {
  std::lock_guard lock(state_->mutex);
  state_->profiler = std::make_shared<Profiler>();
  state_->profiling = true;
}

void Session::StopProfile() {
  std::lock_guard lock(state_->mutex);
  state_->profiling = false;
}

std::string Session::ProfileTrace() const {
  std::lock_guard lock(state_->mutex);
  return state_->profiler ? state_->profiler->ChromeTrace() : "{\"traceEvents\": []}";
}

std::string Session::ProfileSummary() const {
  std::lock_guard lock(state_->mutex);
  return state_->profiler ? state_->profiler->Summary() : "";
}

std::vector<Session::StepTime> Session::ProfileSteps() const {
  std::lock_guard lock(state_->mutex);
  std::vector<StepTime> steps;
  if (!state_->profiler) return steps;
  for (const Profiler::Event& event : state_->profiler->events()) {
    steps.push_back({event.node, event.op_type, std::string(event.core),
                     std::string(event.implementation), event.shape, event.start_ns,
                     event.duration_ns});
  }
  return steps;
}

std::string Session::GraphText() const { return PrintGraph(state_->main->program->graph()); }

std::string Session::Explain(const NamedShapes& shapes) const {
  return WithContext(state_->name, [&] {
    return NamingMemory("the plan", [&] { return state_->Explain(shapes); });
  });
}

}  // namespace sardonyx
