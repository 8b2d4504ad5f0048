import Glibc

/// Returns the system's reason why the last system call failed.
func systemReason() -> String { unsafe String(cString: strerror(errno)) }

/// Reads a file line by line, in bounded memory.
struct LineFile: ~Copyable {
    enum Line: Hashable {
        case bytes([UInt8])
        /// A line was longer than ``limit`` bytes, and was skipped.
        case tooLong
    }

    /// The maximum number of bytes in a line.
    static let limit = 4096

    private let descriptor: Int32
    private var chunk: [UInt8] = []
    private var place = 0
    private var isAtEnd = false

    /// Opens the file; the path `-` means standard input.
    init(path: String) throws(Command.Failure) {
        if path == "-" { descriptor = dup(STDIN_FILENO) } else { descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC) }
        guard descriptor >= 0 else { throw .failed("\(path) cannot be opened: \(systemReason())") }
    }

    deinit { close(descriptor) }

    /// Returns the next line without LF or CR LF; `nil` at the end of the file.
    mutating func next() throws(Command.Failure) -> Line? {
        var line: [UInt8] = []
        var isTooLong = false
        while try fill() {
            let rest = chunk[place...]
            let end = rest.firstIndex(of: UInt8(ascii: "\n"))
            // The limit includes one byte more for a carriage return.
            if line.count + (end ?? rest.endIndex) - place > Self.limit + 1 { isTooLong = true }
            if !isTooLong { line += rest[..<(end ?? rest.endIndex)] }
            place = end.map { $0 + 1 } ?? chunk.endIndex
            if end != nil { return Self.line(line, isTooLong) }
        }
        return line.isEmpty && !isTooLong ? nil : Self.line(line, isTooLong)
    }

    private static func line(_ bytes: [UInt8], _ isTooLong: Bool) -> Line {
        guard !isTooLong else { return .tooLong }
        let line = bytes.last == UInt8(ascii: "\r") ? Array(bytes.dropLast()) : bytes
        return line.count > limit ? .tooLong : .bytes(line)
    }

    /// Reads the next bytes of the file after the previous bytes are used up.
    ///
    /// - Returns: false at the end of the file.
    private mutating func fill() throws(Command.Failure) -> Bool {
        guard place == chunk.count, !isAtEnd else { return place < chunk.count }
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let file = descriptor
        var count = -1
        repeat {
            count = unsafe bytes.withUnsafeMutableBytes { unsafe read(file, $0.baseAddress, $0.count) }
        } while count < 0 && errno == EINTR
        guard count >= 0 else { throw .failed("the input file cannot be read: \(systemReason())") }
        chunk = Array(bytes.prefix(count))
        place = 0
        isAtEnd = count == 0
        return count > 0
    }
}
