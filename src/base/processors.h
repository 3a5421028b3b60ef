#pragma once
// How many processors a container grants, and on which of them a thread runs.

#include <string>

namespace sardonyx {

// The CPU quota of the calling process in processors, rounded up, or 0 if there is none. Reads
// <proc>/self/cgroup and the cgroup v2 or v1 hierarchy mounted at <cgroup>; the tightest limit on
// the way from the process's own group to the root counts. Files that are missing set no limit.
int CgroupProcessors(const std::string& proc = "/proc",
                     const std::string& cgroup = "/sys/fs/cgroup");

// Bits in the affinity mask of the calling thread, at least 1.
int AffinityProcessors();

// The processor that the calling thread runs on, -1 if the system does not tell.
int CurrentProcessor();

// Moves the calling thread to another processor of its affinity mask, which stays as it is.
void LeaveProcessor(int processor);

}  // namespace sardonyx
