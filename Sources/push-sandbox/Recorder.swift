import Foundation
import PushSandbox

/// Writes each push as a line, and runs the hook for those that were accepted.
final class Recorder {
    private let output: FileHandle
    private let hook: String?
    private var running: [Process] = []

    private static let hookLimit = 32

    init(file: String?, hook: String?) throws {
        self.hook = hook
        guard let file else {
            output = .standardOutput
            return
        }
        let isThere = FileManager.default.fileExists(atPath: file)
        guard isThere || FileManager.default.createFile(atPath: file, contents: nil),
            let opened = FileHandle(forWritingAtPath: file)
        else { throw Complaint("cannot write \(file)") }
        _ = try opened.seekToEnd()
        output = opened
    }

    func write(_ record: PushRecord) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        if let line = try? encoder.encode(record) { output.write(line + Data("\n".utf8)) }
        if let hook, record.status == 200 { run(hook, record) }
    }

    /// The payload travels in the environment: nothing of it becomes part of the command.
    private func run(_ hook: String, _ record: PushRecord) {
        running.removeAll { !$0.isRunning }
        guard running.count < Self.hookLimit else { return }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-c", hook]
        process.environment = ProcessInfo.processInfo.environment.merging([
            "PUSH_SERVICE": record.service, "PUSH_TOKEN": record.token, "PUSH_TYPE": record.type,
            "PUSH_BODY": record.body,
        ]) { _, new in new }
        do {
            try process.run()
            running.append(process)
        } catch {
            FileHandle.standardError.write(Data("push-sandbox: the hook does not start: \(error)\n".utf8))
        }
    }
}
