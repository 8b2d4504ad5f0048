import Control
import Glibc
import Telemetry

// The functions of `Output` escape all output, because a terminal obeys control characters in values from callers,
// phones and providers. Only `Output` prints, which `etc/rule-gate` checks.

/// Prints one line.
func say(_ line: String) { print(TerminalText.escaped(line)) }

func say(_ lines: [String]) { for line in lines { say(line) } }

/// Prints a text with separated lines and escaped values.
func say(text: String) { print(TerminalText.escapedLines(text), terminator: "") }

func say(json: String) { print(TerminalText.escapedJSON(json)) }

/// Writes waiting output immediately, so that a pipe gets each line without delay.
func flushOutput() { fflush(nil) }

/// Clears the terminal; a file, or a terminal without control sequences, gets an empty line instead.
func clearScreen() {
    let kind = unsafe getenv("TERM").map { unsafe String(cString: $0) } ?? "dumb"
    print(isatty(STDOUT_FILENO) == 1 && kind != "dumb" ? "\u{1B}[H\u{1B}[J" : "\n", terminator: "")
}

/// Prints a question on the terminal, and reads the answer.
///
/// - Returns: the answer without blanks at both ends; `nil` at the end of the input.
func ask(_ question: String) -> String? {
    print(TerminalText.escaped(question), terminator: " ")
    fflush(nil)
    return readLine(strippingNewline: true).map { line in
        let words = line.drop(while: \.isWhitespace)
        return String(words.reversed().drop(while: \.isWhitespace).reversed())
    }
}

/// Writes an error to standard error, with the program's name at the start of the first line.
func complain(_ lines: [String]) {
    guard let first = lines.first else { return }
    // journald reads an error's priority from the beginning of each line.
    let name = unsafe getenv(JournalStream.variable).map { unsafe String(cString: $0) }
    let priority = JournalStream.isBehind(named: name) ? "<3>" : ""
    let rest = lines.dropFirst().map { priority + TerminalText.escaped($0) + "\n" }.joined()
    var bytes = Array("\(priority)sippushd: \(TerminalText.escaped(first))\n\(rest)".utf8)[...]
    while !bytes.isEmpty {
        let count = unsafe bytes.withUnsafeBytes { unsafe write(STDERR_FILENO, $0.baseAddress, $0.count) }
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { return }
        bytes = bytes.dropFirst(count)
    }
}

/// Prints a table: rows under column heads. All columns except the last have a fixed width.
struct Table {
    private let columns: [(head: String, width: Int)]

    /// Prints the heads of the table's columns.
    init(_ columns: (head: String, width: Int)...) {
        self.columns = columns
        row(columns.map(\.head))
    }

    func row(_ values: String...) { row(values) }

    func row(_ values: [String]) {
        let cells = values.map { TerminalText.escaped($0) }
        let all = zip(cells, columns).map { $0.padded(to: $1.width) }.dropLast().joined()
        print(all + (cells.last ?? ""))
    }
}

/// Prints lines that the program drew itself, with the control sequences of colours on terminals that have colours.
func draw(_ plain: [String], coloured: [String]) {
    let kind = unsafe getenv("TERM").map { unsafe String(cString: $0) } ?? "dumb"
    let hasColours = isatty(STDOUT_FILENO) == 1 && kind != "dumb"
    for line in hasColours ? coloured : plain { print(line) }
}

/// Writes the bytes of a picture to standard output.
///
/// - Returns: false if standard output is a terminal, which cannot show the picture.
func emit(picture: [UInt8]) -> Bool {
    guard isatty(STDOUT_FILENO) == 0 else { return false }
    fflush(nil)
    var bytes = picture[...]
    while !bytes.isEmpty {
        let count = unsafe bytes.withUnsafeBytes { unsafe write(STDOUT_FILENO, $0.baseAddress, $0.count) }
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { return true }
        bytes = bytes.dropFirst(count)
    }
    return true
}
