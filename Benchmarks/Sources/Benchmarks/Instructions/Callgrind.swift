import Foundation

/// Runs the daemon under valgrind's callgrind, which counts the instructions executed in user space. The number of
/// instructions hardly depends on the machine and its load.
struct Callgrind {
    static let program = "/usr/bin/valgrind"
    private static let control = "/usr/bin/vgdb"

    private let folder: URL

    /// Copies the daemon without its debug information, which valgrind cannot read.
    init(daemon: String, in folder: URL) throws(BenchmarkError) {
        guard FileManager.default.isExecutableFile(atPath: Self.program) else {
            throw BenchmarkError("instructions are counted by valgrind, which is not installed")
        }
        self.folder = folder
        try Self.run("/usr/bin/objcopy", ["--strip-debug", daemon, self.daemon])
    }

    /// The path of the copy.
    var daemon: String { folder.appending(path: "sippushd").path }

    func arguments(for program: String) -> [String] {
        [
            "--quiet", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=\(dump.path)", program,
        ]
    }

    private var dump: URL { folder.appending(path: "count") }

    /// Starts to count the daemon's instructions, after the benchmark has warmed the daemon up. Callgrind slows the
    /// daemon down while it counts.
    func start(_ process: Int32) throws(BenchmarkError) {
        try tell(process, "instrumentation", "on")
    }

    /// Returns the number of instructions executed since the last call, or since the start.
    func instructions(of process: Int32) throws(BenchmarkError) -> Double {
        let before = try dumps()
        try tell(process, "dump")
        guard let file = try dumps().subtracting(before).first,
            let text = try? String(contentsOf: folder.appending(path: file), encoding: .utf8),
            let line = text.split(separator: "\n").last(where: { $0.hasPrefix("totals: ") }),
            let count = Double(line.dropFirst("totals: ".count))
        else { throw BenchmarkError("callgrind counted nothing") }
        return count
    }

    private func dumps() throws(BenchmarkError) -> Set<String> {
        do {
            return Set(
                try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasPrefix("count.") })
        } catch {
            throw BenchmarkError("\(folder.path) cannot be read")
        }
    }

    private func tell(_ process: Int32, _ words: String...) throws(BenchmarkError) {
        try Self.run(Self.control, ["--pid=\(process)"] + words)
    }

    private static func run(_ program: String, _ arguments: [String]) throws(BenchmarkError) {
        let process = Process()
        process.executableURL = URL(filePath: program)
        process.arguments = arguments
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        do {
            try process.run()
        } catch {
            throw BenchmarkError("\(program) cannot be run: \(error)")
        }
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw BenchmarkError("\(program) \(arguments.joined(separator: " ")) failed")
        }
    }
}
