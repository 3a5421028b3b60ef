#include "errors.h"

#include "sardonyx/error.hpp"

namespace sardonyx::python {
namespace {

namespace nb = nanobind;

const char* ClassName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNotFound: return "NotFoundError";
    case ErrorCode::kInvalidModel: return "InvalidModelError";
    case ErrorCode::kUnsupported: return "UnsupportedError";
    case ErrorCode::kInvalidArgument: return "InvalidArgumentError";
    case ErrorCode::kOutOfMemory: return "OutOfMemoryError";
    case ErrorCode::kLimitExceeded: return "LimitError";
    case ErrorCode::kInternal: return "InternalError";
  }
  return "Error";
}

void Translate(const std::exception_ptr& pointer, void* /*payload*/) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    // A message may quote names of a hostile file, which need not be UTF-8.
    const std::string_view text = error.what();
    nb::object message = nb::steal(PyUnicode_DecodeUTF8(
        text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
    nb::object type = nb::module_::import_("sardonyx.errors").attr(ClassName(error.code()));
    PyErr_SetObject(type.ptr(), message.ptr());
  }
}

}  // namespace

void RegisterErrors(nb::module_& /*module*/) { nb::register_exception_translator(Translate); }

}  // namespace sardonyx::python
