import Foundation
import PushSandbox

/// Writes each push as a line.
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

    /// A full disk or a closed reader is no reason to stop answering.
    func write(_ record: PushRecord) { try? output.write(contentsOf: record.json + [UInt8(ascii: "\n")]) }
}
