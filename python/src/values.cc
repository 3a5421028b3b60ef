#include "values.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "dtypes.h"
#include "nanobind/stl/string.h"
#include "nanobind/stl/vector.h"

namespace sardonyx::python {
namespace {

namespace nb = nanobind;

// Keeps the memory of a Python object in place. May be let go by any thread.
struct Buffer {
  Py_buffer view{};

  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (view.obj == nullptr || Py_IsInitialized() == 0) return;
    nb::gil_scoped_acquire gil;
    PyBuffer_Release(&view);
  }
};

nb::module_& Numpy() {
  static auto* const numpy = new nb::module_(nb::module_::import_("numpy"));
  return *numpy;
}

PyObject* ArrayType() {
  static PyObject* const type = nb::object(Numpy().attr("ndarray")).release().ptr();
  return type;
}

bool IsArray(nb::handle value) {
  return PyObject_TypeCheck(value.ptr(), reinterpret_cast<PyTypeObject*>(ArrayType())) != 0;
}

// What a function of Python's API returned; throws the exception that it set instead.
PyObject* Checked(PyObject* result) {
  if (result == nullptr) throw nb::python_error();
  return result;
}

std::string StringOf(nb::handle item, const std::string& name) {
  if (PyBytes_Check(item.ptr()))
    return {PyBytes_AS_STRING(item.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(item.ptr()))};
  if (!PyUnicode_Check(item.ptr())) {
    throw Error(ErrorCode::kInvalidArgument, "input '" + name + "': an array of strings holds a " +
                                                 Py_TYPE(item.ptr())->tp_name);
  }
  return BytesOf(item);
}

std::vector<int64_t> DimsOf(nb::handle array) {
  std::vector<int64_t> dims;
  for (nb::handle size : nb::tuple(array.attr("shape"))) dims.push_back(nb::cast<int64_t>(size));
  return dims;
}

Tensor StringTensor(nb::handle array, const std::string& name) {
  Tensor tensor(DType::kString, DimsOf(array));
  const nb::object items = array.attr("ravel")().attr("tolist")();
  auto* out = tensor.data<std::string>();
  for (nb::handle item : nb::list(items)) *out++ = StringOf(item, name);
  return tensor;
}

// The memory of an array of a numeric type. False if it must be copied first.
bool ShareMemory(nb::handle array, DType dtype, Tensor* tensor) {
  const ElementLayout& layout = LayoutOf(dtype);
  // NumPy exports no buffer of a type of ml_dtypes.
  nb::object plain =
      layout.from_ml_dtypes ? nb::object(array.attr("view")(layout.storage)) : nb::borrow(array);
  auto buffer = std::make_shared<Buffer>();
  if (PyObject_GetBuffer(plain.ptr(), &buffer->view, PyBUF_C_CONTIGUOUS) != 0) {
    PyErr_Clear();
    return false;
  }
  const Py_buffer& view = buffer->view;
  std::vector<int64_t> dims(view.shape, view.shape + view.ndim);
  if (IsPacked(dtype)) {
    *tensor = Packed(dtype, std::move(dims), static_cast<const uint8_t*>(view.buf));
    return true;
  }
  const size_t alignment = std::min(DTypeBits(dtype) / 8, 8);
  if (reinterpret_cast<uintptr_t>(view.buf) % alignment != 0) return false;
  *tensor = Tensor(dtype, std::move(dims), view.buf, std::move(buffer));
  return true;
}

// Whether the value is an array that could be taken as it is.
bool FromArray(nb::handle value, const std::string& name, Tensor* tensor) {
  if (!IsArray(value)) return false;
  const nb::object dtype = value.attr("dtype");
  const DType code = DTypeOfNumpy(dtype);
  if (code != DType::kUndefined) return ShareMemory(value, code, tensor);
  if (nb::cast<std::string>(dtype.attr("kind")) != "O") return false;
  *tensor = StringTensor(value, name);
  return true;
}

// A list of arrays that can be taken as they are. False if it must be prepared first.
bool FromPlainList(nb::handle value, const std::string& declared, const std::string& name,
                   Datum* datum) {
  if (!PyList_CheckExact(value.ptr()) || !declared.starts_with("seq(tensor(")) return false;
  auto sequence = std::make_shared<Sequence>();
  sequence->reserve(static_cast<size_t>(PyList_GET_SIZE(value.ptr())));
  for (nb::handle item : nb::borrow<nb::list>(value)) {
    Tensor tensor;
    if (!FromArray(item, name, &tensor)) return false;
    sequence->push_back(std::move(tensor));
  }
  *datum = std::shared_ptr<const Sequence>(std::move(sequence));
  return true;
}

Datum FromPrepared(nb::handle value, const std::string& name);

Datum MapOf(nb::dict items, const std::string& name) {
  auto map = std::make_shared<Map>();
  const auto count = static_cast<int64_t>(nb::len(items));
  int64_t index = 0;
  for (auto [key, value] : items) {
    const bool is_text = PyUnicode_Check(key.ptr()) != 0;
    if (index == 0) map->keys = Tensor(is_text ? DType::kString : DType::kInt64, {count});
    if (is_text != (map->keys.dtype() == DType::kString)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "input '" + name + "': keys of a map are of one type");
    }
    if (is_text) {
      map->keys.data<std::string>()[index] = StringOf(key, name);
    } else {
      map->keys.data<int64_t>()[index] = nb::cast<int64_t>(key);
    }
    map->values.push_back(FromPrepared(value, name));
    ++index;
  }
  if (count == 0) map->keys = Tensor(DType::kInt64, {0});
  return std::shared_ptr<const Map>(std::move(map));
}

template <typename T>
Tensor Scalar(DType dtype, T value) {
  Tensor tensor(dtype, {});
  *tensor.data<T>() = value;
  return tensor;
}

// The number of an entry, of the element type that its map declares. False if it is no plain number
// of Python of that kind.
bool NumberOf(nb::handle value, const std::string& type, Datum* number) {
  if ((type == "float" || type == "double") && PyFloat_Check(value.ptr())) {
    const double real = PyFloat_AS_DOUBLE(value.ptr());
    *number = type == "float" ? Scalar(DType::kFloat32, static_cast<float>(real))
                              : Scalar(DType::kFloat64, real);
    return true;
  }
  if (type != "int64" || !PyLong_CheckExact(value.ptr())) return false;
  int overflow = 0;
  const int64_t integer = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  *number = Scalar(DType::kInt64, integer);
  return overflow == 0;
}

// A dict of plain numbers by str or int, the common case. False if it must be prepared first.
bool FromPlainDict(nb::handle value, const std::string& declared, Datum* datum) {
  constexpr std::string_view kValues = "tensor(";
  const size_t at = declared.find(kValues);
  if (!PyDict_CheckExact(value.ptr()) || !declared.starts_with("map(") || at == std::string::npos ||
      PyDict_GET_SIZE(value.ptr()) == 0) {
    return false;
  }
  const size_t begin = at + kValues.size();
  const std::string type = declared.substr(begin, declared.find(')', begin) - begin);
  auto map = std::make_shared<Map>();
  const auto count = static_cast<int64_t>(PyDict_GET_SIZE(value.ptr()));
  map->values.resize(count);
  PyObject *key = nullptr, *item = nullptr;
  Py_ssize_t position = 0;
  for (int64_t i = 0; PyDict_Next(value.ptr(), &position, &key, &item) != 0; ++i) {
    const bool is_text = PyUnicode_CheckExact(key) != 0;
    if (i == 0) map->keys = Tensor(is_text ? DType::kString : DType::kInt64, {count});
    if (is_text != (map->keys.dtype() == DType::kString)) return false;
    if (is_text) {
      Py_ssize_t size = 0;
      const char* text = PyUnicode_AsUTF8AndSize(key, &size);
      if (text == nullptr) {
        PyErr_Clear();
        return false;
      }
      map->keys.data<std::string>()[i].assign(text, static_cast<size_t>(size));
    } else {
      int overflow = 0;
      if (!PyLong_CheckExact(key)) return false;
      map->keys.data<int64_t>()[i] = PyLong_AsLongLongAndOverflow(key, &overflow);
      if (overflow != 0) return false;
    }
    if (!NumberOf(item, type, &map->values[i])) return false;
  }
  *datum = std::shared_ptr<const Map>(std::move(map));
  return true;
}

// A value as sardonyx._convert.prepare returns it.
Datum FromPrepared(nb::handle value, const std::string& name) {
  if (value.is_none()) return {};
  if (PyList_Check(value.ptr())) {
    auto sequence = std::make_shared<Sequence>();
    for (nb::handle item : nb::list(nb::borrow(value))) {
      sequence->push_back(FromPrepared(item, name));
    }
    return std::shared_ptr<const Sequence>(std::move(sequence));
  }
  if (PyDict_Check(value.ptr())) return MapOf(nb::borrow<nb::dict>(value), name);
  Tensor tensor;
  if (!FromArray(value, name, &tensor)) {
    throw Error(ErrorCode::kInternal, "input '" + name + "': no conversion from this array");
  }
  return tensor;
}

// Python's strings for those of a tensor. Many tensors repeat a few (labels, categories): these are
// made once.
class TextObjects {
 public:
  explicit TextObjects(int64_t texts)
      : slot_bits_(std::clamp(static_cast<int>(std::bit_width(static_cast<uint64_t>(texts))) + 1, 4,
                              kMostSlotBits)),
        slots_(size_t{1} << slot_bits_) {}

  // A new reference, null with Python's error if the text is none.
  PyObject* Of(const std::string& text) {
    if (++count_ > kTrial && hits_ < count_ / 4) return Decode(text);
    const Ends ends = EndsOf(text);
    Slot& slot = slots_[(ends.front * 31 + ends.back + text.size()) * kFactor >> (64 - slot_bits_)];
    if (slot.text != nullptr && slot.ends == ends && Same(*slot.text, text)) {
      ++hits_;
      return Py_NewRef(slot.object);
    }
    PyObject* object = Decode(text);
    if (object != nullptr) slot = {&text, object, ends};  // alive: the array holds it
    return object;
  }

 private:
  static constexpr int kMostSlotBits = 12;
  static constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
  static constexpr size_t kTrial = 2048;

  // The first and the last bytes, up to eight each, which may overlap: with the size they are all
  // of a text of up to 16 bytes, as most are, and cost no call. Of a longer one its hash.
  struct Ends {
    uint64_t front = 0, back = 0;
    bool operator==(const Ends&) const = default;
  };
  struct Slot {
    const std::string* text = nullptr;
    PyObject* object = nullptr;
    Ends ends;
  };

  template <typename Word>
  static Ends WordsOf(const std::string& text) {
    Word front, back;
    std::memcpy(&front, text.data(), sizeof(Word));
    std::memcpy(&back, text.data() + text.size() - sizeof(Word), sizeof(Word));
    return {front, back};
  }

  static Ends EndsOf(const std::string& text) {
    if (text.size() > 16) return {std::hash<std::string>()(text), 0};
    if (text.size() >= 8) return WordsOf<uint64_t>(text);
    if (text.size() >= 4) return WordsOf<uint32_t>(text);
    if (text.size() >= 2) return WordsOf<uint16_t>(text);
    return text.empty() ? Ends() : WordsOf<uint8_t>(text);
  }

  // Of two texts with equal ends.
  static bool Same(const std::string& a, const std::string& b) {
    return a.size() == b.size() && (a.size() <= 16 || a == b);
  }

  static PyObject* Decode(const std::string& text) {
    return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()),
                                "surrogateescape");
  }

  const int slot_bits_;
  std::vector<Slot> slots_;
  size_t count_ = 0, hits_ = 0;
};

nb::object StringArray(const Tensor& tensor) {
  nb::object array = Numpy().attr("empty")(nb::cast(std::vector<int64_t>(tensor.dims())), "object");
  Py_buffer view;
  if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_CONTIG | PyBUF_FORMAT) != 0)
    throw nb::python_error();
  auto** items = static_cast<PyObject**>(view.buf);
  TextObjects objects(tensor.size());
  for (int64_t i = 0; i < tensor.size(); ++i) {
    PyObject* item = objects.Of(tensor.data<std::string>()[i]);
    Py_XSETREF(items[i], item != nullptr ? item : Py_NewRef(Py_None));
  }
  PyBuffer_Release(&view);
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return array;
}

// What an array that a run returns has as its base: memory of the engine, as a Python buffer.
struct Memory {
  Tensor tensor;

  static int GetBuffer(PyObject* self, Py_buffer* view, int flags) {
    const Tensor& tensor = nb::inst_ptr<Memory>(self)->tensor;
    return PyBuffer_FillInfo(view, self, tensor.raw(), static_cast<Py_ssize_t>(tensor.bytes()), 0,
                             flags);
  }
};

nb::tuple ShapeOf(const Tensor& tensor) {
  nb::tuple shape = nb::steal<nb::tuple>(PyTuple_New(tensor.rank()));
  for (int i = 0; i < tensor.rank(); ++i) {
    PyTuple_SET_ITEM(shape.ptr(), i, PyLong_FromLongLong(tensor.dims()[i]));
  }
  return shape;
}

nb::object ArrayOf(const Tensor& tensor) {
  if (tensor.dtype() == DType::kString) return StringArray(tensor);
  const nb::object dtype = DtypeOf(tensor.dtype());
  Tensor plain = IsPacked(tensor.dtype()) ? Unpacked(tensor) : tensor;
  const nb::tuple shape = ShapeOf(plain);
  const nb::object memory = nb::cast(Memory{std::move(plain)});
  PyObject* const arguments[] = {shape.ptr(), dtype.ptr(), memory.ptr()};
  return nb::steal(Checked(PyObject_Vectorcall(ArrayType(), arguments, 3, nullptr)));
}

}  // namespace

std::string BytesOf(nb::handle text) {
  Py_ssize_t size = 0;
  if (const char* utf8 = PyUnicode_AsUTF8AndSize(text.ptr(), &size)) {
    return {utf8, static_cast<size_t>(size)};
  }
  PyErr_Clear();
  nb::object bytes =
      nb::steal(Checked(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogateescape")));
  return {PyBytes_AS_STRING(bytes.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(bytes.ptr()))};
}

nb::str TextOf(std::string_view bytes) {
  return nb::steal<nb::str>(Checked(PyUnicode_DecodeUTF8(
      bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape")));
}

Datum FromPython(nb::handle value, const std::string& declared, const std::string& name) {
  Tensor tensor;
  if (FromArray(value, name, &tensor)) return tensor;
  Datum plain;
  if (FromPlainDict(value, declared, &plain) || FromPlainList(value, declared, name, &plain)) {
    return plain;
  }
  static auto* const prepare =
      new nb::object(nb::module_::import_("sardonyx._convert").attr("prepare"));
  const nb::object prepared = (*prepare)(value, declared, name);
  return FromPrepared(prepared, name);
}

void BindValues(nb::module_& module) {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(Memory::GetBuffer)},
                                {0, nullptr}};
  nb::class_<Memory>(module, "Memory", nb::type_slots(slots));
}

namespace {

// The values of all these maps in one list, where they are numbers of one type: a map from labels
// to numbers holds numbers, not arrays without dimensions. Null for other values.
nb::object NumbersOf(const std::vector<const Map*>& maps) {
  DType dtype = DType::kUndefined;
  int64_t count = 0;
  for (const Map* map : maps) {
    for (const Datum& datum : map->values) {
      const Tensor* tensor = datum.tensor();
      if (tensor == nullptr || tensor->rank() != 0 || tensor->dtype() == DType::kString) return {};
      if (count++ == 0) dtype = tensor->dtype();
      if (tensor->dtype() != dtype || IsPacked(dtype)) return {};
    }
  }
  if (count == 0) return {};
  Tensor numbers(dtype, {count});
  auto* to = static_cast<std::byte*>(numbers.raw());
  const size_t width = static_cast<size_t>(numbers.bytes() / count);
  for (const Map* map : maps) {
    for (const Datum& datum : map->values) {
      std::memcpy(to, datum.tensor()->raw(), width);
      to += width;
    }
  }
  return nb::steal(Checked(PySequence_List(ArrayOf(numbers).ptr())));
}

nb::list DictsOf(const std::vector<const Map*>& maps) {
  const nb::object numbers = NumbersOf(maps);
  Py_ssize_t number = 0;
  const void* memory = nullptr;  // of the keys, which maps of a sequence often share
  nb::object keys, model;        // a dict of these keys: a copy of it has room for them
  nb::list dicts;
  for (const Map* map : maps) {
    if (memory != map->keys.raw() || memory == nullptr) {
      memory = map->keys.raw();
      keys = ArrayOf(map->keys).attr("tolist")();
      model = nb::dict();
    }
    const nb::object items = nb::steal(Checked(PyDict_Copy(model.ptr())));
    for (size_t i = 0; i < map->values.size(); ++i) {
      PyObject* key = PyList_GET_ITEM(keys.ptr(), static_cast<Py_ssize_t>(i));
      if (numbers.is_valid()) {
        PyDict_SetItem(items.ptr(), key, PyList_GET_ITEM(numbers.ptr(), number++));
        continue;
      }
      nb::object value = ToPython(map->values[i]);
      if (IsArray(value) && nb::cast<int>(value.attr("ndim")) == 0) value = value[nb::tuple()];
      PyDict_SetItem(items.ptr(), key, value.ptr());
    }
    dicts.append(items);
    model = items;
  }
  return dicts;
}

}  // namespace

nb::object ToPython(const Datum& datum) {
  if (const Tensor* tensor = datum.tensor()) return ArrayOf(*tensor);
  if (const Sequence* sequence = datum.sequence()) {
    nb::list items;
    std::vector<const Map*> maps;
    for (const Datum& item : *sequence) {
      if (item.map() == nullptr) break;
      maps.push_back(item.map());
    }
    if (!maps.empty() && maps.size() == sequence->size()) return DictsOf(maps);
    for (const Datum& item : *sequence) items.append(ToPython(item));
    return items;
  }
  if (const Map* map = datum.map()) return DictsOf({map})[0];
  return nb::none();
}

}  // namespace sardonyx::python
