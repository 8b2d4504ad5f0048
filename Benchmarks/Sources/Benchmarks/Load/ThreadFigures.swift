import Foundation

/// The processor time of the threads of a process, from the kernel, in steps of 10 ms.
struct ThreadFigures: Sendable {
    /// The processor time so far of all threads with the same name.
    private(set) var times: [String: Duration] = [:]

    init(of process: Int32) throws(BenchmarkError) {
        let folder = "/proc/\(process)/task"
        guard let threads = try? FileManager.default.contentsOfDirectory(atPath: folder) else {
            throw BenchmarkError("\(folder) cannot be read: has the daemon ended?")
        }
        for thread in threads {
            // A thread that has ended since the folder was read counts no more.
            guard let name = try? String(contentsOfFile: "\(folder)/\(thread)/comm", encoding: .utf8),
                let stat = try? String(contentsOfFile: "\(folder)/\(thread)/stat", encoding: .utf8),
                let time = ProcessFigures.cpu(stat: stat, ticksPerSecond: sysconf(Int32(_SC_CLK_TCK)))
            else { continue }
            times[name.trimmingCharacters(in: .whitespacesAndNewlines), default: .zero] += time
        }
    }

    func time(of name: String, since earlier: ThreadFigures) -> Duration {
        times[name, default: .zero] - earlier.times[name, default: .zero]
    }
}
