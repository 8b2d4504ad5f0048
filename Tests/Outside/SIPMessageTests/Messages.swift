import Bytes
import SIPGrammar
import SIPMessage
import Testing

/// Converts the text to bytes with SIP's line ends, which are CRLF.
func wire(_ text: String) -> [UInt8] {
    var bytes: [UInt8] = []
    for byte in text.utf8 {
        if byte == UInt8(ascii: "\n") { bytes.append(UInt8(ascii: "\r")) }
        bytes.append(byte)
    }
    return bytes
}

/// Makes a message head without a body: the lines, and the empty line after them.
func head(_ lines: String) -> [UInt8] { wire(lines + "\n\n") }

func read(_ bytes: [UInt8], isStream: Bool = false) -> ReadMessage {
    MessageReader().read(bytes.span, isStream: isStream)
}

func request(_ bytes: [UInt8], isStream: Bool = false) throws -> SIPRequest {
    let message = read(bytes, isStream: isStream)
    guard case .request(let request) = message else { throw Unexpected(message: "\(message)") }
    return request
}

func response(_ bytes: [UInt8]) throws -> SIPResponse {
    let message = read(bytes)
    guard case .response(let response) = message else { throw Unexpected(message: "\(message)") }
    return response
}

func unusable(_ bytes: [UInt8], isStream: Bool = false) throws -> UnusableMessage {
    let message = read(bytes, isStream: isStream)
    guard case .unusable(let unusable) = message else { throw Unexpected(message: "\(message)") }
    return unusable
}

struct Unexpected: Error { let message: String }

/// A valid SIP message, in which a test changes some header fields.
struct Draft {
    var startLine = "OPTIONS sip:bob@pn.test SIP/2.0"
    var via = "Via: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK1;rport"
    var from = "From: <sip:alice@pn.test>;tag=1"
    var to = "To: <sip:bob@pn.test>"
    var callID = "Call-ID: c1"
    var cseq = "CSeq: 7 OPTIONS"
    var more: [String] = []
    var length: String? = "Content-Length: 0"
    var body = ""

    init() {}

    static func register(_ more: String...) -> Draft {
        var draft = Draft()
        draft.startLine = "REGISTER sip:pn.test SIP/2.0"
        draft.cseq = "CSeq: 7 REGISTER"
        draft.more = more
        return draft
    }

    static func with(_ more: String...) -> Draft {
        var draft = Draft()
        draft.more = more
        return draft
    }

    /// Makes a message with the given body, and no Content-Length if `length` is `nil`.
    static func with(body: String, length: String?) -> Draft {
        var draft = Draft()
        draft.length = length.map { "Content-Length: \($0)" }
        draft.body = body
        return draft
    }

    func changed(_ change: (inout Draft) -> Void) -> Draft {
        var draft = self
        change(&draft)
        return draft
    }

    var bytes: [UInt8] {
        let rows = [startLine, via, from, to, callID, cseq] + more + (length.map { [$0] } ?? [])
        return head(rows.joined(separator: "\n")) + Array(body.utf8)
    }
}

func == (left: ByteString?, right: String) -> Bool { left?.string == right }

extension [UInt8] {
    var text: String { String(decoding: self, as: UTF8.self) }

    /// The message with line ends that a Swift literal can contain.
    var lines: String { text.replacing("\r\n", with: "\n") }
}
