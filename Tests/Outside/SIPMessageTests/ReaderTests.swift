import Bytes
import SIPGrammar
import SIPMessage
import Testing

@Suite("Reading messages")
struct ReaderTests {
    // MARK: Unreadable data

    @Test(arguments: [
        "", "\r\n", "\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", "\u{0}\u{1}\u{0}\u{0}!\u{12}¤B",
        "x", "SIP/2.0",
    ])
    func `data that is not SIP is not answered`(text: String) throws {
        #expect(try unusable(Array(text.utf8)).answer == nil)
    }

    @Test func `empty lines before the start line are skipped`() throws {
        let options = try request(wire("\n\n") + Draft().bytes)
        #expect(options.frame.bytes.string.hasPrefix("OPTIONS "))
    }

    @Test(arguments: [
        "OPTIONS sip:bob@pn.test", "OPTIONS  sip:bob@pn.test SIP/2.0", "OPTIONS sip:bob@pn.test  SIP/2.0",
        "OPTIONS sip:bob@pn.test SIP/2.0 ", " OPTIONS sip:bob@pn.test SIP/2.0", "OPTIONS\tsip:bob@pn.test SIP/2.0",
        "OPTIONS SIP/2.0", "OPT<IONS sip:bob@pn.test SIP/2.0", "OPTIONS bob SIP/2.0", "OPTIONS sip: SIP/2.0",
        "OPTIONS <sip:bob@pn.test> SIP/2.0", "OPTIONS sip:bob@ SIP/2.0", "OPTIONS sip:bob@pn.test:x SIP/2.0",
        "OPTIONS sip:bob@pn.test:70000 SIP/2.0", "OPTIONS sip:bob@[::1 SIP/2.0", "OPTIONS sip:bob@p!n SIP/2.0",
        "OPTIONS sip:bob@pn.test;;lr SIP/2.0", "OPTIONS sip:bob@pn.test;=x SIP/2.0",
        "OPTIONS sip:b\"ob@pn.test SIP/2.0", "OPTIONS tel:;pn-prid=x SIP/2.0", "OPTIONS urn:;pn-prid=x SIP/2.0",
    ])
    func `a start line that is not exactly right makes no request`(line: String) throws {
        let unusable = try unusable(Draft().changed { $0.startLine = line }.bytes)
        #expect(unusable.answer.map { $0.status == .badRequest } ?? (unusable.reason == .notSIP))
    }

    @Test func `the version may be in any case and must be 2_0`() throws {
        #expect(throws: Never.self) {
            try request(Draft().changed { $0.startLine = "OPTIONS sip:b@pn.test sIp/2.0" }.bytes)
        }
        for version in ["SIP/1.0", "SIP/2.1", "SIP/2.00", "SIP/20", "SIP/x"] {
            let unusable = try unusable(Draft().changed { $0.startLine = "OPTIONS sip:b@pn.test \(version)" }.bytes)
            #expect(unusable.answer?.status.code == 505)
        }
    }

    @Test(arguments: [0...8, 11...12, 14...31, 127...127] as [ClosedRange<UInt8>])
    func `control bytes in a head are refused, in a body welcome`(bytes: ClosedRange<UInt8>) throws {
        for byte in bytes {
            let control = String(UnicodeScalar(byte))
            #expect(try unusable(Draft.with("X: a\(control)b").bytes).answer?.status == .badRequest)
            #expect(try request(Draft.with(body: control, length: "1").bytes).frame.body.array == [byte])
        }
    }

    @Test func `a row with a control byte is never sent back`() throws {
        let unusable = try unusable(Draft().changed { $0.callID = "Call-ID: a\u{0}b" }.bytes)
        #expect(unusable.reason == .forbiddenByte)
        #expect(unusable.answer == nil)
    }

    @Test(arguments: [0, 7, 0x0b, 0x1b, 0x7f] as [UInt8])
    func `a control byte in a quoted pair of an address is answered`(byte: UInt8) throws {
        let control = String(UnicodeScalar(byte))
        func answer(_ from: String) throws -> Status? {
            let draft = Draft().changed { $0.from = "From: \(from) <sip:a@pn.test>;tag=1" }
            let unusable = try unusable(draft.bytes)
            #expect(unusable.reason == .forbiddenByte)
            return unusable.answer?.status
        }
        #expect(try answer("\"a\\\(control)\"") == .badRequest)
        #expect(try answer("\"a\\\\\\\(control)\"") == .badRequest)
        // The last backslash is the second character of another quoted pair, and so does not escape the control
        // character.
        #expect(try answer("\"a\\\\\(control)\"") == nil)
        #expect(try answer("\"a\(control)\"") == nil)
        // A line end cannot be the second character of a quoted pair.
        #expect(try answer("\"a\\\r\"") == nil)
        // Quoted pairs are not allowed outside a quoted string.
        #expect(try unusable(Draft().changed { $0.callID = "Call-ID: a\\\(control)b" }.bytes).answer == nil)
    }

    @Test func `bare CR and bare LF are control bytes like others`() throws {
        let text = Draft.with("X: a?b").bytes.text
        #expect(try unusable(Array(text.replacing("?", with: "\r").utf8)).reason == .forbiddenByte)
        #expect(try unusable(Array(text.replacing("?", with: "\n").utf8)).reason == .forbiddenByte)
        #expect(try unusable(Array(text.replacing("\r\n", with: "\n").utf8)).answer == nil)
    }

    @Test(arguments: ["Via", "From", "To", "Call-ID", "CSeq"])
    func `without a mandatory field there is no answer`(name: String) throws {
        let unusable = try unusable(wire(Draft().bytes.lines.replacing("\n\(name):", with: "\nX:")))
        let isMissing = if case .missing = unusable.reason { true } else { false }
        #expect(isMissing, "\(unusable.reason)")
        #expect(unusable.answer == nil)
    }

    @Test(arguments: ["ACK sip:b@pn.test SIP/2.0", "ACK sip:b@pn.test SIP/3.0", "ACK  sip:b@pn.test SIP/2.0"])
    func `an ACK is never answered`(line: String) throws {
        let ack = Draft().changed {
            $0.startLine = line
            $0.cseq = "CSeq: x ACK"
        }
        #expect(try unusable(ack.bytes).answer == nil)
        // A request is not answered if its CSeq names ACK.
        #expect(try unusable(Draft().changed { $0.cseq = "CSeq: 1 ACK" }.bytes).answer == nil)
    }

    @Test func `a method is made of exactly the token bytes`() throws {
        for byte in UInt8(0x21)...0xff {
            let isToken = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.!%*_+`'~".utf8)
                .contains(byte)
            var bytes = Draft().changed {
                $0.startLine = "X? sip:pn.test SIP/2.0"
                $0.cseq = "CSeq: 1 X?"
            }.bytes
            for index in bytes.indices where bytes[index] == UInt8(ascii: "?") { bytes[index] = byte }
            if case .request = read(bytes) { #expect(isToken) } else { #expect(!isToken) }
        }
    }

    @Test func `a row without a colon or a name is answered 400`() throws {
        for row in ["no colon here", ": no name", "na me: x", "n\u{e4}me: x"] {
            #expect(try unusable(Draft.with(row).bytes).answer?.status == .badRequest)
        }
        #expect(try unusable(Draft().changed { $0.startLine += "\n X: 1" }.bytes).reason == .headerSyntax(.other))
    }

    @Test func `a head without its empty line is no message`() throws {
        let bytes = Draft().bytes
        #expect(try unusable(Array(bytes.dropLast(2))).answer?.status == .badRequest)
    }

    @Test(arguments: ["<sip:b@h>;a=", "<sip:b@h>;a= ;b", "<sip:b@h>;", "<sip:b@h>; =b", "sip:b@h;"])
    func `no quote or bracket is left open where our parameters will follow`(value: String) throws {
        #expect(try unusable(Draft().changed { $0.to = "To: \(value)" }.bytes).reason == .headerSyntax(.to))
    }

    @Test func `a contact may end with an empty parameter`() throws {
        #expect(try contact("<sip:u@h>;q=")?.parameters.first(named: "q")?.value == nil)
        #expect(try contact("<sip:u@h>;q=1;")?.parameters.map(\.name) == [ByteString("q")])
    }

    @Test func `a tag must have a value`() throws {
        for value in ["<sip:b@h>;tag", "<sip:b@h>;tag=", "sip:b@h;tag;x=1"] {
            #expect(try unusable(Draft().changed { $0.to = "To: \(value)" }.bytes).reason == .headerSyntax(.to))
            #expect(try unusable(Draft().changed { $0.from = "From: \(value)" }.bytes).reason == .headerSyntax(.from))
        }
    }

    // MARK: Names and addresses

    private func contact(_ value: String) throws -> NameAddress? {
        try request(Draft.register("Contact: \(value)").bytes).contacts.first
    }

    @Test func `quoted and unquoted display names are kept as they are`() throws {
        #expect(try contact(#""a, \"b\" <c>" <sip:u@h>;x"#)?.displayName == #""a, \"b\" <c>""#)
        #expect(try contact("Иван Петров <sip:u@h>")?.displayName == "Иван Петров")
        #expect(try contact("<sip:u@h>")?.displayName == nil)
    }

    @Test(arguments: [
        "", ",", "<sip:u@h", "sip:u@h>", "<sip:u@h>x", "<>", "<u@h>", "\"a <sip:u@h>", "a, b <sip:u@h>",
        "<sip:u@h> ;;a", "<sip:u@h>;=a", "<sip:u@h>;a=b c", "<sip:u@h>;a=\"b\"c", "<sip:u@h>;a=\"b", "<sip:u@ h>",
        "sip:u@h?a=b", "<sip:u@h>,", "*, <sip:u@h>", "<sip:u@h:123456>", "<sip:u@h:>", "<sip:u@[zz]>",
        "<sip:u@[1.2.3.4]>", "<sip:u@[::1]x>", "<sip:u@[::1]x:5060>", "<sip:u@x[::1]>", "<sip:u@::1>",
        "<sip:u@h:1:2>", "**", "<sip:u@h;a=<b>>", "<\r\n sip:u@h>", "<tel:;pn-prid=x>", "<urn:;x>",
    ])
    func `malformed contacts are answered 400`(value: String) throws {
        #expect(try unusable(Draft.register("Contact: \(value)").bytes).answer?.status == .badRequest)
    }

    @Test func `a star is the only contact`() throws {
        let register = try request(Draft.register("Contact: *", "Expires: 0").bytes)
        #expect(register.contactIsStar)
        #expect(register.contacts.isEmpty)
        #expect(register.expires == 0)
        #expect(try unusable(Draft.register("m: *", "m: *").bytes).reason == .headerSyntax(.contact))
    }

    @Test func `IPv6 hosts keep their brackets`() throws {
        let contact = try #require(try contact("<sip:u:p%3Aw@[2001:db8::1]:5070;transport=tcp>"))
        #expect(contact.uri.host == "[2001:db8::1]")
        #expect(contact.uri.port == 5070)
        #expect(contact.uri.password == "p%3Aw")
        let options = try request(Draft().changed { $0.via = "Via: SIP/2.0/TLS [2001:db8::2];branch=z9hG4bK1" }.bytes)
        #expect(options.via.host == "[2001:db8::2]")
        #expect(options.via.port == nil)
    }

    @Test func `parameters keep order, quotes, escapes and missing values`() throws {
        let contact = try #require(try contact(#"<sip:u@h;ob;a=1%3B2;B>;q=0.5 ; +sip.instance = "<urn:x;y>";z"#))
        #expect(contact.uri.parameters.map(\.name.string) == ["ob", "a", "B"])
        #expect(contact.uri.parameters.map { $0.value?.string } == [nil, "1%3B2", nil])
        #expect(contact.parameters.map(\.name.string) == ["q", "+sip.instance", "z"])
        #expect(contact.parameters.map { $0.value?.string } == ["0.5", #""<urn:x;y>""#, nil])
    }

    @Test func `a telephone number and its parameters`() throws {
        let options = try request(
            Draft().changed { $0.startLine = "OPTIONS tel:+7383;phone-context=x;y SIP/2.0" }.bytes)
        #expect(options.uri.scheme == .tel)
        #expect(options.uri.user == "+7383")
        #expect(options.uri.parameters.value(of: "phone-context") == "x")
        #expect(options.uri.parameters.contains("y"))
    }

    @Test func `sips and upper case schemes are SIP`() throws {
        #expect(try contact("<SIPS:u@h>")?.uri.scheme == .sips)
        #expect(try contact("<Sip:u@h>")?.uri.scheme == .sip)
        #expect(try contact("<sipx:u@h>")?.uri.scheme == .other)
    }

    @Test func `rows and comma-separated values are the same`() throws {
        let rows = ["<sip:a;lr>", "<sip:b;lr>", "\"x, y\" <sip:c;lr>"]
        let apart = try request(Draft().changed { $0.more = rows.map { "Route: \($0)" } }.bytes)
        let joined = try request(Draft.with("Route: " + rows.joined(separator: " ,\n  ")).bytes)
        #expect(apart.routes.map(\.uri.host.string) == ["a", "b", "c"])
        #expect(joined.routes.map(\.uri.host.string) == ["a", "b", "c"])
        let values = joined.frame.fields.filter { $0.name == .route }
        #expect(values.map(\.row.isEmpty) == [false, true, true])
    }

    // MARK: Via and credentials

    @Test(arguments: [
        "SIP/2.0/UDP", "SIP/2.0/UDP ", "SIP/2.0/ h", "SIP/3.0/UDP h", "HTTP/2.0/UDP h", "SIP/2.0/UDP h:x",
        "SIP/2.0/UDP h:99999", "SIP/2.0/UDP h;;a", "SIP/2.0/UDP h (a);b", "SIP/2.0/UDP h x;b", "SIP/2.0/UDP h,",
        "SIP/2.0/UDP h;a=\"b", "2.0/UDP h", "SIP/2.0/U(P h", "", "SIP/2.0/UDP [::1]x:5", "SIP/2.0/UDP x[::1]",
        "SIP/2.0/UDP [h]", "SIP/2.0/UDP ::1", "SIP/2.0/UDP x: [::1]", "SIP/2.0/UDP h;rport=", "SIP/2.0/UDP h;",
        "SIP/2.0/UDP h i", "SIP/2.0/UDP h:5 6",
    ])
    func `a malformed topmost Via is answered 400`(value: String) throws {
        #expect(try unusable(Draft().changed { $0.via = "Via: \(value)" }.bytes).answer?.status == .badRequest)
    }

    @Test func `credentials lose their quotes, other schemes are passed over`() throws {
        let register = try request(
            Draft.register(
                "Authorization: Basic YTpi",
                #"Authorization: DIGEST  realm="r", nonce="n,1", username="a\"b%40",  uri="sip:pn.test", response="f0","#
                    + "\n algorithm=SHA-256, qop=auth, nc=00000001, cnonce=\"c\", opaque=\"\", unknown=\"x, y\"",
                #"Authorization: Digest username="incomplete""#
            ).bytes)
        #expect(register.authorization.count == 1)
        let credentials = try #require(register.authorization.first)
        #expect(credentials.username == #"a"b%40"#)
        #expect(credentials.nonce == "n,1")
        #expect(credentials.algorithm == "SHA-256")
        #expect(credentials.qop == "auth")
        #expect(credentials.nonceCount == "00000001")
    }

    @Test func `Proxy-Authorization belongs to other methods than REGISTER`() throws {
        let row = #"Proxy-Authorization: Digest username="a", realm="r", nonce="n", uri="u", response="x""#
        #expect(try request(Draft.with(row).bytes).proxyAuthorization.count == 1)
        #expect(try request(Draft.register(row).bytes).proxyAuthorization.isEmpty)
    }

    @Test(
        arguments: [
            ("600", 600), ("4294967295", 4_294_967_295), ("4294967296", 3600), ("soon", 3600), ("-1", 3600),
        ] as [(String, UInt32)])
    func `a malformed Expires reads as an hour`(value: String, expected: UInt32) throws {
        #expect(try request(Draft.register("Expires: \(value)").bytes).expires == expected)
    }

    @Test func `a message keeps its values when its bytes are kept and read again`() throws {
        let first = try request(Draft.register("Contact: <sip:u%20@h;a=%00>").bytes)
        guard case .request(let again) = MessageReader().read(first.frame.bytes.compacted(), isStream: false) else {
            throw Unexpected(message: "not read again")
        }
        #expect(again.frame.bytes == first.frame.bytes)
        #expect(again.contacts.first?.uri.user == "u%20")
        #expect(again.contacts.first?.uri.text == "sip:u%20@h;a=%00")
    }
}
