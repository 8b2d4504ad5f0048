import Bytes
import SIPGrammar
import SIPMessage
import Testing

@Suite("Identity fields of strangers (T9.7), and foreign credentials (T9.8)")
struct HeaderFilterTests {
    private func request(_ rows: [String]) throws -> SIPRequest {
        let text =
            """
            INVITE sip:bob@example.net SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nf: <sip:a@b>;tag=1\r\nt: <sip:b@b>\r
            i: 1\r\nCSeq: 1 INVITE\r\n
            """ + rows.map { $0 + "\r\n" }.joined() + "Content-Length: 0\r\n\r\n"
        let reader = MessageReader()
        guard case .request(let request) = reader.read(Array(text.utf8).span, isStream: false) else {
            throw Unreadable()
        }
        return request
    }

    private struct Unreadable: Error {}

    private func forwarded(_ rows: [String], _ change: (inout RequestEdits) -> Void) throws -> String {
        var edits = RequestEdits(
            requestURI: ByteString("sip:bob@example.net"), via: ByteString("SIP/2.0/UDP p;branch=z9hG4bK2"),
            maxForwards: 69)
        change(&edits)
        return String(decoding: try request(rows).forwarded(edits).bytes, as: UTF8.self)
    }

    static let names = [
        "P-Asserted-Identity", "P-Preferred-Identity", "Remote-Party-ID", "Diversion", "History-Info",
        "P-Charging-Vector", "P-Charging-Function-Addresses", "P-Charging-Anything", "P-Access-Network-Info",
        "P-Asserted-Service", "P-Served-User", "P-A", "P-Early-Media-Not", "Answer-Mode", "Priv-Answer-Mode",
        "Alert-Info",
        "X-Account", "X-a",
    ]

    /// Tests that the filter removes a header field in every spelling of its name.
    @Test(arguments: names, ["N: v", "n: v", "U: v", "N : v", "N\t : v", "N:\r\n v", "N :\r\n v", "N:v"])
    func `every spelling of a name is removed`(name: String, spelling: String) throws {
        let written =
            switch spelling.first {
            case "n": name.lowercased()
            case "U": name.uppercased()
            default: name
            }
        let row = written + spelling.dropFirst().replacing("v", with: "<sip:evil@example.net>")
        let text = try forwarded([row, "Subject: stays", row]) { $0.filter = HeaderFilter(names: ["X-*"]) }
        #expect(!text.contains("evil"))
        #expect(text.contains("Subject: stays\r\n") && text.hasSuffix("Content-Length: 0\r\n\r\n"))
    }

    @Test func `without a filter, and without being named, everything stays`() throws {
        let rows = Self.names.map { "\($0): <sip:evil@example.net>" }
        let all = try forwarded(rows) { _ in }
        for row in rows { #expect(all.contains(row + "\r\n")) }
        let text = try forwarded(["XX: 1", "Extra: 1", "P-Early-Media: 1", "Privacy: id"]) {
            $0.filter = HeaderFilter(names: ["X-*"])
        }
        for row in ["XX: 1", "Extra: 1", "P-Early-Media: 1", "Privacy: id"] { #expect(text.contains(row + "\r\n")) }
    }

    @Test(arguments: [
        ("Referred-By", "b"), ("Subject", "s"), ("Sub*", "S"), ("Session-Expires", "x"), ("subject", "Subject"),
    ])
    func `a listed name is also removed in its compact form`(listed: String, written: String) throws {
        let text = try forwarded(["\(written): evil"]) { $0.filter = HeaderFilter(names: [listed]) }
        #expect(!text.contains("evil"))
    }

    @Test func `a response loses them as well, and stays the same object without them`() throws {
        func response(_ row: String) throws -> SIPResponse {
            let text =
                """
                SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP p;branch=z9hG4bK2, SIP/2.0/UDP h\r\nf: <sip:a@b>;tag=1\r\nt: <sip:b@b>;tag=2\r
                i: 1\r\nCSeq: 1 INVITE\r\n\(row)\r\nContent-Length: 0\r\n\r\n
                """
            guard case .response(let response) = MessageReader().read(Array(text.utf8).span, isStream: false) else {
                throw Unreadable()
            }
            return response
        }
        let filter = HeaderFilter(names: ["X-*"])
        let bad = try response("p-asserted-identity : <sip:evil@b>")
        let text = String(decoding: bad.without(filter).withoutTopVia(), as: UTF8.self)
        #expect(!text.contains("evil") && text.contains("Via: SIP/2.0/UDP h\r\n") && text.contains("CSeq: 1 INVITE"))
        let good = try response("Server: x")
        #expect(good.without(filter) === good)
    }

    @Test(arguments: ["Via", "v*", "*", "", "Call-ID", "c*", "Authorization", "A B", "X-Ö", "Proxy-*", "ContentType:"])
    func `fields that SIP needs, and invalid names, cannot be listed`(name: String) {
        #expect(HeaderFilter.complaint(about: name) != nil)
    }

    @Test(arguments: ["X-*", "User-Agent", "P-*", "Subject"])
    func `other names can`(name: String) { #expect(HeaderFilter.complaint(about: name) == nil) }

    // MARK: Credentials

    private static let realms = [ByteString("example.net"), ByteString("a\"b")]

    @Test(arguments: [
        #"Digest username="bob", realm="example.net", nonce="1""#, #"digest REALM = "Example.NET""#,
        #"Digest realm=example.net,nonce="1""#, #"Digest username="a\"b", realm="example.net""#,
        "Digest username=\"bob\",\r\n realm=\"example.net\"", #"Digest realm="exa\mple.net""#, #"Digest realm="a\"b""#,
        #"Digest realm="pbx", realm="example.net""#, #"Digest realm="pbx", Digest realm="example.net""#,
        #"Digest  realm="example.net"#,
    ])
    func `our own are removed`(value: String) throws {
        for name in ["Proxy-Authorization", "authorization "] {
            let text = try forwarded(["\(name): \(value)", "Subject: stays"]) { $0.ownRealms = Self.realms }
            #expect(!text.lowercased().contains("realm") && text.contains("Subject: stays"), "\(value)")
        }
    }

    @Test(arguments: [
        #"Digest username="bob", realm="pbx", nonce="1""#, #"Digest username="realm=\"example.net\"", realm="pbx""#,
        #"Digest myrealm="example.net", realm="pbx""#, #"Digest realm="example.net.pbx""#, "Basic Ym9iOnM=", "",
        #"Digest realm"#, #"Digest realm="#, #"Digest realm=""#, #"Digest realm="pbx\"#,
    ])
    func `the ones for others are forwarded`(value: String) throws {
        let row = "Proxy-Authorization: \(value)"
        let ours = "Proxy-Authorization: Digest realm=\"example.net\", username=\"ours\""
        let text = try forwarded([row, ours]) { $0.ownRealms = Self.realms }
        #expect(text.contains(row + "\r\n") && !text.contains("ours"))
    }
}
