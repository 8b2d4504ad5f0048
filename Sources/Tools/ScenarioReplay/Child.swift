import Foundation
import Glibc

/// A child process whose output goes to a log file.
final class Child {
    let name: String
    let log: URL
    private let process = Process()

    /// Starts a program.
    ///
    /// - Parameters:
    ///   - name: the name of the process in messages.
    ///   - program: a path, or a name to search for in `PATH`.
    ///   - arguments: the arguments of the program.
    ///   - log: the file for the program's output and errors.
    ///   - input: the program's whole standard input.
    ///   - environment: variables that are added to this process's own.
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
            // The time zone is set to UTC, because MessageTrace reads times of day in UTC from SIPp's message traces.
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

    /// Whether a program with this name is in a folder of `PATH`, or in `/usr/sbin`.
    static func isInstalled(_ name: String, path: String? = ProcessInfo.processInfo.environment["PATH"]) -> Bool {
        let folders = (path ?? "").split(separator: ":").map { String($0) } + ["/usr/sbin"]
        return folders.contains { folder in
            FileManager.default.isExecutableFile(atPath: "\(folder)/\(name)")
        }
    }

    /// The exit code: `nil` while the process runs, and 128 plus the signal's number if a signal ended it.
    var exit: Int? {
        guard !process.isRunning else { return nil }
        let status = Int(process.terminationStatus)
        return process.terminationReason == .exit ? status : 128 + status
    }

    var output: String { (try? String(contentsOf: log, encoding: .utf8)) ?? "" }

    /// The last lines of the process's output, indented, for a report.
    var lastWords: String {
        output.split(whereSeparator: \.isNewline).suffix(12).map { "      \(name)| \($0)" }.joined(separator: "\n")
    }

    /// Waits until `condition` is true.
    ///
    /// - Parameters:
    ///   - what: the name of the condition for the error.
    ///   - seconds: how long to wait.
    ///   - condition: evaluated every few milliseconds.
    /// - Throws: ``ReplayError`` if the time limit has passed or the process has ended.
    func wait(for what: String, seconds: Double = 10, until condition: () -> Bool) throws(ReplayError) {
        let end = Date.now.addingTimeInterval(seconds)
        while !condition() {
            if let exit { throw ReplayError("\(name) ended with \(exit) before \(what)\n\(lastWords)") }
            if Date.now > end { throw ReplayError("\(name): no \(what) in \(seconds) s\n\(lastWords)") }
            Thread.sleep(forTimeInterval: 0.005)
        }
    }

    /// Kills the process.
    func kill() {
        if process.isRunning { _ = Glibc.kill(process.processIdentifier, SIGKILL) }
    }

    /// Asks the process to end.
    func terminate() {
        if process.isRunning { process.terminate() }
    }

    /// Asks the process to end, and kills it if it has not ended after three seconds.
    func stop() {
        guard process.isRunning else { return }
        terminate()
        let end = Date.now.addingTimeInterval(3)
        while process.isRunning, Date.now < end { Thread.sleep(forTimeInterval: 0.005) }
        kill()
    }
}

/// The reason why a scenario cannot be played.
package struct ReplayError: Error, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}
