import Addressing
import Bytes
import SIPGrammar
import SIPTransactions
import Timekeeping

let start = Instant(nanoseconds: 1_000_000_000_000)
let timers = TransactionTimers()

let udp = Flow(transport: .udp, listener: 0, connection: 0, remote: Endpoint(IPAddress(v4: 0x0a00_0001), 5060))
let tcp = Flow(transport: .tcp, listener: 1, connection: 7, remote: Endpoint(IPAddress(v4: 0x0a00_0002), 5060))

extension String {
    var bytes: [UInt8] { Array(utf8) }
}

/// A message in the one format these tests write: each header field once, one line each.
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
        guard let request = parse(text.bytes)?.request else { preconditionFailure("not a request") }
        return request
    }
    var response: SIPResponse {
        guard let response = parse(text.bytes)?.response else { preconditionFailure("not a response") }
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

/// Bytes of a response to a request, as a core would write them.
func answer(_ request: SIPRequest, _ status: Int, toTag: String = "t1") -> [UInt8] {
    var out = "SIP/2.0 \(status) Phrase\r\n"
    for (name, title) in [(HeaderName.via, "Via"), (.from, "From"), (.to, "To"), (.callID, "Call-ID"), (.cseq, "CSeq")]
    {
        let value = request.frame.firstValue(of: name)?.string ?? ""
        out += "\(title): \(value)\(name == .to && !value.contains("tag=") ? ";tag=\(toTag)" : "")\r\n"
    }
    return (out + "\r\n").bytes
}

// MARK: Reading

struct Parsed {
    var request: SIPRequest?
    var response: SIPResponse?
}

func parse(_ bytes: [UInt8]) -> Parsed? {
    let text = String(decoding: bytes, as: UTF8.self)
    let names: [String: HeaderName] = [
        "Via": .via, "Route": .route, "From": .from, "To": .to, "Call-ID": .callID, "CSeq": .cseq,
    ]
    var fields: [HeaderField] = []
    var values: [HeaderName: String] = [:]
    let lines = text.components(separatedBy: "\r\n")
    var place = lines[0].utf8.count + 2
    let headersStart = place
    for line in lines.dropFirst() {
        guard let colon = line.firstIndex(of: ":") else { break }
        let name = names[String(line[..<colon])] ?? .other
        let value = String(line[line.index(colon, offsetBy: 2)...])
        let end = place + line.utf8.count
        fields.append(HeaderField(name: name, row: place..<end + 2, value: end - value.utf8.count..<end))
        values[name] = value
        place = end + 2
    }
    let frame = MessageFrame(
        bytes: ByteString(bytes), fields: fields, headersStart: headersStart, bodyStart: min(place + 2, bytes.count))
    let words = lines[0].split(separator: " ").map(String.init)
    guard let via = values[.via], let from = values[.from], let to = values[.to], let callID = values[.callID],
        let cseq = values[.cseq]?.split(separator: " "), words.count == 3
    else { return nil }
    let number = CSeq(number: UInt32(cseq[0]) ?? 0, method: Method(ByteString(String(cseq[1]))))
    if words[0] == "SIP/2.0" {
        return Parsed(
            response: SIPResponse(
                frame: frame, status: Status(code: UInt16(words[1]) ?? 0), via: readVia(via), viaCount: 1,
                to: readAddress(to), callID: ByteString(callID), cseq: number))
    }
    return Parsed(
        request: SIPRequest(
            frame: frame, method: Method(ByteString(words[0])), uri: readURI(words[1]), via: readVia(via),
            from: readAddress(from), to: readAddress(to), callID: ByteString(callID), cseq: number, maxForwards: 70,
            routes: [], contacts: [], contactIsStar: false, path: [], expires: nil,
            authorization: [], proxyAuthorization: []))
}

private func readURI(_ text: String) -> SIPURI {
    SIPURI(
        scheme: .sip, user: nil, password: nil, host: .empty, port: nil, parameters: [], headers: nil,
        text: ByteString(text))
}

private func readParameters(_ texts: ArraySlice<String>) -> [Parameter] {
    texts.map { text in
        let parts = text.components(separatedBy: "=")
        return Parameter(name: ByteString(parts[0]), value: parts.count > 1 ? ByteString(parts[1]) : nil)
    }
}

private func readAddress(_ text: String) -> NameAddress {
    let parts = text.components(separatedBy: ";")
    return NameAddress(displayName: nil, uri: readURI(parts[0]), parameters: readParameters(parts.dropFirst()))
}

private func readVia(_ text: String) -> Via {
    let parts = text.components(separatedBy: ";")
    let words = parts[0].components(separatedBy: " ")
    let sentBy = words[1].components(separatedBy: ":")
    return Via(
        transport: ByteString(words[0].components(separatedBy: "/")[2]), host: ByteString(sentBy[0]),
        port: sentBy.count > 1 ? UInt16(sentBy[1]) : nil, parameters: readParameters(parts.dropFirst()))
}

extension String {
    fileprivate func components(separatedBy separator: String) -> [String] {
        var parts: [String] = []
        var rest = self[...]
        while let range = rest.firstRange(of: separator) {
            parts.append(String(rest[..<range.lowerBound]))
            rest = rest[range.upperBound...]
        }
        return parts + [String(rest)]
    }
}
