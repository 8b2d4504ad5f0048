import Bytes
import Testing

/// A torture message of RFC 4475 or RFC 5118, with the result that the reader must give.
struct TortureMessage: Sendable, CustomTestStringConvertible {
    enum Expectation: Equatable, Sendable {
        case request, response
        case answered(UInt16)
        /// The reader does not answer the message, because an answer is impossible or forbidden.
        case dropped
    }

    let name: String
    let expected: Expectation
    let bytes: [UInt8]

    init(_ name: String, _ expected: Expectation, _ lines: String, body: [UInt8] = []) {
        self.name = name
        self.expected = expected
        bytes = head(lines) + body
    }

    init(_ name: String, _ expected: Expectation, _ lines: String, sdp address: String) {
        self.init(name, expected, lines, body: Self.sdp(origin: address, connection: address))
    }

    var testDescription: String { name }

    /// All messages of RFC 4475.
    static let all = valid + invalid + beyondSyntax

    static func named(_ name: String) -> TortureMessage? { (all + ipv6).first { $0.name == name } }

    static func sdp(origin: String, connection: String, start: String = "0") -> [UInt8] {
        wire(
            """
            v=0
            o=mhandley 29739 7272939 IN IP4 \(origin)
            s=-
            c=IN IP4 \(connection)
            t=\(start) 0
            m=audio 49217 RTP/AVP 0 12
            m=video 3227 RTP/AVP 31
            a=rtpmap:31 LPC

            """)
    }
}
