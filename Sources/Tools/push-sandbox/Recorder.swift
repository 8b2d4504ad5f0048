import Foundation
import PushSandbox

/// Writes each push to the sandbox's file of pushes, as one line of JSON.
final class Recorder {
    private let output: FileHandle

    init(file: String?) throws {
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

    /// A failure to write is ignored, because the sandbox must answer even if the disk is full or the reader of the
    /// pipe has ended.
    func write(_ record: PushRecord) { try? output.write(contentsOf: record.json + [UInt8(ascii: "\n")]) }
}
