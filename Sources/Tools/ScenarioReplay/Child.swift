import Foundation
import Glibc

/// A child process that writes its output to a log file.
final class Child {
    let name: String
    let log: URL
    private let process = Process()

    /// Starts a program as a child process.
    ///
    /// - Parameters:
    ///   - name: the process's name in messages.
    ///   - program: the program's path, or a name that is looked up in `PATH`.
    ///   - arguments: the arguments of the program.
    ///   - log: the file for standard output and standard error.
    ///   - input: the whole standard input.
    ///   - environment: variables that are added to this process's own variables.
    /// - Throws: ``ReplayError`` if the program cannot be started.
    init(
        _ name: String, _ program: String, _ arguments: [String], log: URL, input: String = "",
        environment: [String: String] = [:]
    ) throws(ReplayError) {
        self.name = name
        self.log = log
        do {
            try Data().write(to: log)
            let output = try FileHandle(forWritingTo: log)
            process.executableURL = URL(filePath: program.contains("/") ? program : "/usr/bin/env")
            process.arguments = (program.contains("/") ? [] : [program]) + arguments
            // The time zone is UTC, because MessageTrace expects UTC in SIPp's traces.
            process.environment = ProcessInfo.processInfo.environment
                .merging(["TZ": "UTC"]) { $1 }.merging(environment) { $1 }
            process.standardOutput = output
            process.standardError = output
            if input.isEmpty {
                process.standardInput = FileHandle.nullDevice
                try process.run()
            } else {
                let pipe = Pipe()
                process.standardInput = pipe
                try process.run()
                try pipe.fileHandleForWriting.write(contentsOf: Data(input.utf8))
                try pipe.fileHandleForWriting.close()
            }
            try output.close()
        } catch {
            throw ReplayError("cannot start \(program): \(error.localizedDescription)")
        }
    }

    /// Whether a program with the given name is in a folder of `PATH` or in `/usr/sbin`.
    static func isInstalled(_ name: String, path: String? = ProcessInfo.processInfo.environment["PATH"]) -> Bool {
        let folders = (path ?? "").split(separator: ":").map { String($0) } + ["/usr/sbin"]
        return folders.contains { folder in
            FileManager.default.isExecutableFile(atPath: "\(folder)/\(name)")
        }
    }

    /// The exit code: `nil` while the process runs, and 128 plus the signal's number after a signal.
    var exit: Int? {
        guard !process.isRunning else { return nil }
        let status = Int(process.terminationStatus)
        return process.terminationReason == .exit ? status : 128 + status
    }

    var output: String { (try? String(contentsOf: log, encoding: .utf8)) ?? "" }

    /// The last twelve lines of the output, indented, for a report.
    var lastWords: String {
        output.split(whereSeparator: \.isNewline).suffix(12).map { "      \(name)| \($0)" }.joined(separator: "\n")
    }

    /// Waits until `condition` is true.
    ///
    /// - Parameters:
    ///   - what: the condition's name, for the error message.
    ///   - seconds: the time limit in seconds.
    ///   - condition: the condition, which is evaluated every few milliseconds.
    /// - Throws: ``ReplayError`` if the time limit has passed, or if the process has ended.
    func wait(for what: String, seconds: Double = 10, until condition: () -> Bool) throws(ReplayError) {
        let end = Date.now.addingTimeInterval(seconds)
        while !condition() {
            if let exit { throw ReplayError("\(name) ended with \(exit) before \(what)\n\(lastWords)") }
            if Date.now > end { throw ReplayError("\(name): no \(what) in \(seconds) s\n\(lastWords)") }
            Thread.sleep(forTimeInterval: 0.005)
        }
    }

    /// Ends the process with SIGKILL.
    func kill() {
        if process.isRunning { _ = Glibc.kill(process.processIdentifier, SIGKILL) }
    }

    /// Ends the process by SIGTERM.
    func terminate() {
        if process.isRunning { process.terminate() }
    }

    /// Ends the process by SIGTERM, and after three seconds by SIGKILL.
    func stop() {
        guard process.isRunning else { return }
        terminate()
        let end = Date.now.addingTimeInterval(3)
        while process.isRunning, Date.now < end { Thread.sleep(forTimeInterval: 0.005) }
        kill()
    }
}

/// Why a scenario cannot be played.
package struct ReplayError: Error, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}
