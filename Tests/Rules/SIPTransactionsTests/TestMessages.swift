import Addressing
import Bytes
import SIPGrammar
import SIPTransactions
import TestSupport
import Timekeeping

let start = Instant(nanoseconds: 1_000_000_000_000)
let timers = TransactionTimers()

func at(_ seconds: Double) -> Instant { start + .milliseconds(Int64(seconds * 1000)) }

let udp = Flow(transport: .udp, listener: 0, connection: 0, remote: Endpoint(IPAddress(v4: 0x0a00_0001), 5060))
let tcp = Flow(transport: .tcp, listener: 1, connection: 7, remote: Endpoint(IPAddress(v4: 0x0a00_0002), 5060))

extension String {
    var bytes: [UInt8] { Array(utf8) }
}

/// A SIP message with each header field once, on a line of its own.
struct TestMessage {
    var startLine: String
    var via = "SIP/2.0/UDP client.example:5060;branch=z9hG4bKabc"
    var from = "<sip:alice@example.com>;tag=f1"
    var to = "<sip:bob@example.com>"
    var callID = "call-1"
    var cseq = "1 INVITE"
    var route = "<sip:edge.example.com;lr>"
    var body = ""

    init(_ method: String, branch: String = "z9hG4bKabc", sentBy: String = "client.example:5060") {
        startLine = "\(method) sip:bob@example.com SIP/2.0"
        via = "SIP/2.0/UDP \(sentBy);branch=\(branch)"
        cseq = "1 \(method)"
    }

    init(status: Int, branch: String, method: String, toTag: String = "t1") {
        startLine = "SIP/2.0 \(status) Phrase"
        via = "SIP/2.0/UDP proxy.example:5060;branch=\(branch)"
        to += ";tag=\(toTag)"
        cseq = "1 \(method)"
    }

    private var rows: [(HeaderName, String)] {
        [
            (.via, "Via: \(via)"), (.route, "Route: \(route)"), (.from, "From: \(from)"), (.to, "To: \(to)"),
            (.callID, "Call-ID: \(callID)"), (.cseq, "CSeq: \(cseq)"),
        ]
    }

    var text: String { startLine + "\r\n" + rows.map { $0.1 + "\r\n" }.joined() + "\r\n" + body }

    var request: SIPRequest {
        guard let request = SIPText.readRequest(text.bytes) else { preconditionFailure("not a request") }
        return request
    }
    var response: SIPResponse {
        guard let response = SIPText.readResponse(text.bytes) else { preconditionFailure("not a response") }
        return response
    }

    var outgoing: OutgoingRequest {
        var ranges: [HeaderName: Range<Int>] = [:]
        var place = startLine.utf8.count + 2
        for (name, row) in rows {
            ranges[name] = place..<place + row.utf8.count + 2
            place += row.utf8.count + 2
        }
        let words = startLine.split(separator: " ")
        let uri = words[0].utf8.count + 1
        func range(_ name: HeaderName) -> Range<Int> { ranges[name] ?? 0..<0 }
        return OutgoingRequest(
            bytes: text.bytes, method: Method(ByteString(String(words[0]))),
            cseqNumber: UInt32(cseq.split(separator: " ")[0]) ?? 0, requestURI: uri..<uri + words[1].utf8.count,
            viaRow: range(.via), fromRow: range(.from), toRow: range(.to), callIDRow: range(.callID),
            routeRows: [range(.route)])
    }
}

/// Makes a response to the request, as a transaction user would write it.
func answer(_ request: SIPRequest, _ status: Int, toTag: String = "t1") -> [UInt8] {
    var out = "SIP/2.0 \(status) Phrase\r\n"
    for (name, title) in [(HeaderName.via, "Via"), (.from, "From"), (.to, "To"), (.callID, "Call-ID"), (.cseq, "CSeq")]
    {
        let value = request.frame.firstValue(of: name)?.string ?? ""
        out += "\(title): \(value)\(name == .to && !value.contains("tag=") ? ";tag=\(toTag)" : "")\r\n"
    }
    return (out + "\r\n").bytes
}
