#include "base/processors.h"

#ifdef __linux__
#include <sched.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <thread>

namespace sardonyx {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

int64_t Quotient(int64_t quota, int64_t period) {
  if (quota <= 0 || period <= 0) return kUnlimited;
  return std::max<int64_t>(1, quota / period + (quota % period != 0));
}

// cgroup v2: one file "<quota or max> <period>".
int64_t LimitOfGroupV2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota;
  int64_t period = 0;
  if (!(file >> quota >> period) || quota == "max") return kUnlimited;
  return Quotient(std::strtoll(quota.c_str(), nullptr, 10), period);
}

// cgroup v1: two files; a quota of -1 means none.
int64_t LimitOfGroupV1(const std::string& folder) {
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us");
  std::ifstream period_file(folder + "/cpu.cfs_period_us");
  int64_t quota = 0;
  int64_t period = 0;
  if (!(quota_file >> quota) || !(period_file >> period)) return kUnlimited;
  return Quotient(quota, period);
}

// Without a cgroup namespace the path is the host's and need not exist below the mount, but then
// the mount's root is the container's group: walking up to it covers both.
template <typename Limit>
int64_t TightestUpwards(const std::string& mount, std::string path, Limit&& limit) {
  int64_t result = kUnlimited;
  while (true) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    result = std::min(result, limit(mount + path));
    if (path.empty()) return result;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

bool ListsController(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == name) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

}  // namespace

int CgroupProcessors(const std::string& proc, const std::string& cgroup) {
  std::ifstream groups(proc + "/self/cgroup");
  int64_t limit = kUnlimited;
  for (std::string line; std::getline(groups, line);) {  // <hierarchy>:<controllers>:<path>
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      limit = std::min(limit, TightestUpwards(cgroup, path, LimitOfGroupV2));
    } else if (ListsController(controllers, "cpu")) {
      for (const std::string& mount : {cgroup + "/" + controllers, cgroup + "/cpu"}) {
        limit = std::min(limit, TightestUpwards(mount, path, LimitOfGroupV1));
      }
    }
  }
  return limit > std::numeric_limits<int>::max() ? 0 : static_cast<int>(limit);
}

int AffinityProcessors() {
#ifdef __linux__
  // The kernel refuses a mask smaller than its own.
  for (int processors = 1024; processors <= (1 << 20); processors *= 2) {
    cpu_set_t* mask = CPU_ALLOC(processors);
    if (mask == nullptr) break;
    const size_t size = CPU_ALLOC_SIZE(processors);
    const bool ok = sched_getaffinity(0, size, mask) == 0;
    const bool too_small = !ok && errno == EINVAL;
    const int count = ok ? CPU_COUNT_S(size, mask) : 0;
    CPU_FREE(mask);
    if (ok) return std::max(1, count);
    if (!too_small) break;
  }
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int CurrentProcessor() {
#ifdef __linux__
  return sched_getcpu();
#else
  return -1;
#endif
}

void LeaveProcessor([[maybe_unused]] int processor) {
#ifdef __linux__
  cpu_set_t allowed;  // of 1024 processors: on larger systems the thread stays
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
  cpu_set_t others = allowed;
  CPU_CLR(processor, &others);
  if (sched_setaffinity(0, sizeof(others), &others) != 0) return;
  // What can fail for a moment is the kernel's memory for the mask.
  for (int tries = 0; tries < 100 && sched_setaffinity(0, sizeof(allowed), &allowed) != 0; ++tries)
    std::this_thread::yield();
#endif
}

}  // namespace sardonyx
