import Bytes
import SIPGrammar

/// What a Reason header field says of a call (RFC 3326): a CANCEL may mean that somebody else answered.
enum CallReason {
    static let completedElsewhere = ByteString("SIP;cause=200;text=\"Call completed elsewhere\"")

    /// `SIP;cause=200`, or what other PBXs send for the same: `Q.850;cause=26`, non-selected user clearing.
    static func saysAnswered(_ field: ByteString) -> Bool {
        values(of: field).contains { $0 == ("sip", 200) || $0 == ("q.850", 26) }
    }

    /// The first of the two, which phones know.
    static func saysCompletedElsewhere(_ field: ByteString) -> Bool {
        values(of: field).contains { $0 == ("sip", 200) }
    }

    /// Protocol and cause of each value in a field, in lower case; those without a cause are left out.
    private static func values(of field: ByteString) -> [(String, Int)] {
        parts(of: field.string[...], at: ",").compactMap { value in
            let parts = parts(of: value, at: ";").map { $0.lowercased() }
            for part in parts.dropFirst() {
                let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                guard pair.count == 2, trimmed(pair[0]) == "cause", let cause = Int(trimmed(pair[1])) else { continue }
                return (trimmed(parts[0][...]), cause)
            }
            return nil
        }
    }

    /// The text between separators that do not stand in quotes.
    private static func parts(of text: Substring, at separator: Character) -> [Substring] {
        var parts: [Substring] = []
        var start = text.startIndex
        var isQuoted = false
        var isEscaped = false
        for index in text.indices {
            let character = text[index]
            if isEscaped {
                isEscaped = false
            } else if isQuoted, character == "\\" {
                isEscaped = true
            } else if character == "\"" {
                isQuoted.toggle()
            } else if character == separator, !isQuoted {
                parts.append(text[start..<index])
                start = text.index(after: index)
            }
        }
        parts.append(text[start...])
        return parts
    }

    private static func trimmed(_ text: Substring) -> String {
        let blanks = { (character: Character) in character.isWhitespace }
        return String(text.drop(while: blanks).reversed().drop(while: blanks).reversed())
    }
}

extension Fork.CancelReason {
    /// The Reason header fields of the CANCEL.
    func fields(callerReasons: [ByteString]) -> [ByteString] {
        switch self {
        // The caller may say the same in its own words; a phone understands these.
        case .answeredElsewhere:
            callerReasons.contains(where: CallReason.saysCompletedElsewhere)
                ? callerReasons : [CallReason.completedElsewhere] + callerReasons
        case .declinedElsewhere(let status), .dismissed(let status): [ByteString("SIP;cause=\(status.code)")]
        case .callerCancelled: callerReasons
        case .moved: []
        }
    }
}
