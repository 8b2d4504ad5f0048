/// A message template with placeholders of fixed width, from which thousands of messages per second can be made.
///
/// The placeholder `%uuuuuu` stands for the user's number, `%cccc` for the CSeq (both decimal), and `%bbbb` for the Via
/// branch in hexadecimal.
package struct MessageTemplate: Sendable {
    private let text: [UInt8]
    private let marks: [Mark]

    private struct Mark {
        let letter: UInt8
        let range: Range<Int>
    }

    package init(_ text: String) {
        let bytes = Array(text.utf8)
        var marks: [Mark] = []
        var index = 0
        while index + 2 < bytes.count {
            let letter = bytes[index + 1]
            guard bytes[index] == UInt8(ascii: "%"), bytes[index + 2] == letter, Self.letters.contains(letter) else {
                index += 1
                continue
            }
            let end = bytes[(index + 1)...].firstIndex { $0 != letter } ?? bytes.count
            marks.append(Mark(letter: letter, range: index..<end))
            index = end
        }
        self.text = bytes
        self.marks = marks
    }

    private static let user = UInt8(ascii: "u")
    private static let cseq = UInt8(ascii: "c")
    private static let branch = UInt8(ascii: "b")
    private static let letters = [user, cseq, branch]

    /// Makes a message; a number that is too long for its placeholder loses its first digits.
    package func message(user: Int, cseq: Int = 1, branch: UInt64) -> [UInt8] {
        var message = text
        for mark in marks {
            switch mark.letter {
            case Self.user: Self.write(UInt64(user), base: 10, in: mark.range, of: &message)
            case Self.cseq: Self.write(UInt64(cseq), base: 10, in: mark.range, of: &message)
            default: Self.write(branch, base: 16, in: mark.range, of: &message)
            }
        }
        return message
    }

    private static func write(_ value: UInt64, base: UInt64, in range: Range<Int>, of message: inout [UInt8]) {
        var rest = value
        for index in range.reversed() {
            let digit = UInt8(rest % base)
            message[index] = digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10
            rest /= base
        }
    }
}
