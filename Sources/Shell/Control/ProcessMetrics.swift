import FoundationEssentials
import Glibc
import Telemetry

/// The kernel's figures about this process: CPU time, memory, threads and open files. The metrics of the process have
/// the names that all Prometheus clients use.
extension MetricFamily {
    static func process() -> [MetricFamily] {
        var families: [MetricFamily] = []
        func add(_ name: String, _ kind: Kind, _ help: String, _ value: (some BinaryInteger)?) {
            guard let value else { return }
            var family = MetricFamily(name, kind, help)
            family.add(value)
            families.append(family)
        }
        let state = ProcessState.current
        if let cpu = state?.cpu {
            var family = MetricFamily(
                "process_cpu_seconds_total", .counter, "Total user and system CPU time spent in seconds.")
            family.add(cpu)
            families.append(family)
        }
        add("process_resident_memory_bytes", .gauge, "Resident memory size in bytes.", state?.residentBytes)
        add("process_virtual_memory_bytes", .gauge, "Virtual memory size in bytes.", state?.virtualBytes)
        add("process_threads", .gauge, "Threads of the process.", state?.threads)
        add(
            "process_start_time_seconds", .gauge, "Start time of the process since unix epoch in seconds.",
            state?.startedAt)
        add("process_open_fds", .gauge, "Number of open file descriptors.", ProcessState.openDescriptors)
        add("process_max_fds", .gauge, "Maximum number of open file descriptors.", ProcessState.maximumDescriptors)
        return families
    }
}

/// The values of `/proc/self/stat` at one moment (proc(5)).
struct ProcessState {
    let cpu: Duration
    let threads: Int
    /// The time at which the process started, in Unix seconds.
    let startedAt: Int?
    let virtualBytes: Int
    let residentBytes: Int

    static var current: ProcessState? {
        guard let stat = try? String(contentsOfFile: "/proc/self/stat", encoding: .utf8) else { return nil }
        return ProcessState(
            stat: stat, bootedAt: bootedAt, ticksPerSecond: sysconf(Int32(_SC_CLK_TCK)),
            pageSize: sysconf(Int32(_SC_PAGESIZE)))
    }

    init?(stat: String, bootedAt: Int?, ticksPerSecond: Int, pageSize: Int) {
        // The fields are counted from the closing parenthesis of field 2, because the program's name in field 2 may
        // contain any character.
        guard let parenthesis = stat.lastIndex(of: ")") else { return nil }
        let fields = stat[parenthesis...].split(separator: " ")
        guard fields.count > 22, ticksPerSecond > 0, let user = Int(fields[12]), let system = Int(fields[13]),
            let threads = Int(fields[18]), let start = Int(fields[20]), let virtual = Int(fields[21]),
            let pages = Int(fields[22])
        else { return nil }
        cpu = .seconds(user + system) / ticksPerSecond
        self.threads = threads
        startedAt = bootedAt.map { $0 + start / ticksPerSecond }
        virtualBytes = virtual
        residentBytes = pages * pageSize
    }

    /// The time at which the machine started, in Unix seconds. The long file `/proc/stat` is read only once, because
    /// the start time never changes.
    private static let bootedAt: Int? = {
        guard let text = try? String(contentsOfFile: "/proc/stat", encoding: .utf8) else { return nil }
        let line = text.split(separator: "\n").first { $0.hasPrefix("btime ") }
        return line.flatMap { Int($0.dropFirst(6)) }
    }()

    static var openDescriptors: Int? {
        var status = stat()
        // Since Linux 6.2, the size of `/proc/self/fd` is the number of open descriptors. On kernels before Linux 6.2,
        // the entries of the folder are counted.
        if unsafe stat("/proc/self/fd", &status) == 0, status.st_size > 0 { return Int(status.st_size) }
        guard let folder = unsafe opendir("/proc/self/fd") else { return nil }
        defer { unsafe closedir(folder) }
        // The entries `.`, `..` and the descriptor that reads the folder do not count.
        var count = -3
        while unsafe readdir(folder) != nil { count += 1 }
        return count
    }

    static var maximumDescriptors: UInt64? {
        var limit = rlimit()
        guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return nil }
        return UInt64(limit.rlim_cur)
    }
}
