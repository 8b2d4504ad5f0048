import Bytes
import SIPGrammar
import SIPMessage
import Testing

@Suite("Limits of the reader")
struct ReaderLimitTests {
    private let limits = ReaderLimits()

    /// Returns the status with which the daemon would refuse each message; `nil` if the reader accepts the message.
    private func statuses(_ values: [Int], isStream: Bool = false, _ message: (Int) -> [UInt8]) -> [UInt16?] {
        values.map { value in
            switch read(message(value), isStream: isStream) {
            case .request, .response: nil
            case .unusable(let unusable): unusable.answer?.status.code ?? 0
            }
        }
    }

    private func around(_ limit: Int) -> [Int] { [limit - 1, limit, limit + 1] }

    @Test func `a head longer than 16 KiB is answered 513`() {
        let empty = Draft.with("X: ").bytes.count
        let found = statuses(around(limits.head)) { size in
            Draft.with("X: " + String(repeating: "x", count: size - empty)).bytes
        }
        #expect(found == [nil, nil, 513])
    }

    @Test func `a head that is too long is answered only if the mandatory rows came first`() throws {
        let filler = "X: " + String(repeating: "x", count: 17_000)
        let late = try unusable(Draft().changed { $0.from = filler + "\n" + $0.from }.bytes)
        #expect(late.reason == .headTooLarge)
        #expect(late.answer == nil)
        let early = try unusable(Draft.with(filler).bytes)
        let answer = try #require(early.answer)
        #expect(answer.frame.response(answer.status).text.hasPrefix("SIP/2.0 513 Message Too Large\r\nVia: "))
    }

    @Test func `more than 128 rows are answered 400`() {
        let found = statuses(around(limits.headerFields)) { rows in
            Draft().changed { $0.more = (0..<rows - 6).map { "X-\($0): x" } }.bytes
        }
        #expect(found == [nil, nil, 400])
    }

    /// The reader stores up to 32 header fields without allocating memory, so the test has messages with fewer and more
    /// fields.
    @Test(arguments: [25, 26, 27, 80])
    func `any number of rows keeps its order`(count: Int) throws {
        let values = (0..<count).map { ByteString("<sip:p\($0)@192.0.2.9;lr>") }
        let read = try request(Draft().changed { $0.more = values.map { "Record-Route: \($0)" } }.bytes)
        #expect(read.frame.values(of: .recordRoute) == values)
        #expect(read.frame.fields.count == count + 6 && read.frame.fields.last?.name == .contentLength)
    }

    @Test func `values of list rows count too`() throws {
        let values = Array(repeating: "<sip:p@192.0.2.9;lr>", count: 300).joined(separator: ",")
        #expect(try unusable(Draft.with("Route: \(values)").bytes).reason == .tooManyHeaders)
    }

    @Test func `a Request-URI longer than 2 KiB is answered 414`() {
        let found = statuses(around(limits.uri)) { size in
            let user = String(repeating: "u", count: size - "sip:@pn.test".utf8.count)
            return Draft().changed { $0.startLine = "OPTIONS sip:\(user)@pn.test SIP/2.0" }.bytes
        }
        #expect(found == [nil, nil, 414])
    }

    @Test func `a body longer than 64 KiB is answered 413`() {
        for isStream in [false, true] {
            let found = statuses(around(limits.body), isStream: isStream) { size in
                Draft.with(body: String(repeating: "b", count: size), length: "\(size)").bytes
            }
            #expect(found == [nil, nil, 413])
        }
    }

    @Test func `a REGISTER may have 20 contacts`() {
        let found = statuses(around(limits.contacts)) { count in
            let contacts = (0..<count).map { "<sip:u\($0)@192.0.2.1>" }
            return Draft.register("Contact: " + contacts.joined(separator: ", ")).bytes
        }
        #expect(found == [nil, nil, 400])
    }

    @Test func `a value may have 64 parameters`() {
        let places: [(String) -> Draft] = [
            { .register("Contact: <sip:u@192.0.2.1\($0)>") }, { .register("Contact: <sip:u@192.0.2.1>\($0)") },
            { parameters in Draft().changed { $0.via = "Via: SIP/2.0/UDP 192.0.2.1\(parameters)" } },
        ]
        for (number, draft) in places.enumerated() {
            let found = statuses(around(64)) { draft(String(repeating: ";a", count: $0)).bytes }
            #expect(found == [nil, nil, 400], "\(["URI", "Contact", "Via"][number])")
        }
    }

    @Test func `a head full of the costliest values is read on a second try`() throws {
        let contact = "<sip:u@h" + String(repeating: ";a", count: 64) + ">" + String(repeating: ";b", count: 64)
        let register = try request(
            Draft.register("Contact: " + Array(repeating: contact, count: 20).joined(separator: ",")).bytes)
        #expect(register.contacts.count == 20)
        for contact in register.contacts {
            #expect(Array(contact.uri.parameters).count == 64)
            #expect(Array(contact.parameters).count == 64)
            #expect(contact.uri.host == "h")
            #expect(contact.parameters.allSatisfy { $0.name == "b" && $0.value == nil })
        }
    }

    @Test(
        arguments: [
            ("0", nil), ("2147483647", nil), ("2147483648", 400), ("-1", 400), ("+1", 400), ("1x", 400), ("", 400),
        ] as [(String, UInt16?)])
    func `CSeq is a number below 2^31`(number: String, status: UInt16?) {
        #expect(statuses([0]) { _ in Draft().changed { $0.cseq = "CSeq: \(number) OPTIONS" }.bytes } == [status])
    }

    @Test(
        arguments: [("0", nil), ("255", nil), ("256", 400), ("-1", 400), ("7 0", 400), ("", 400)]
            as [(String, UInt16?)])
    func `Max-Forwards is a number up to 255`(number: String, status: UInt16?) {
        #expect(statuses([0]) { _ in Draft.with("Max-Forwards: \(number)").bytes } == [status])
    }

    @Test(arguments: [("99", false), ("100", true), ("699", true), ("700", false), ("1000", false), ("2x0", false)])
    func `a status code has three digits from 100 to 699`(code: String, isRead: Bool) {
        let bytes = Draft().changed { $0.startLine = "SIP/2.0 \(code) Phrase" }.bytes
        let wasRead = if case .response = read(bytes) { true } else { false }
        #expect(wasRead == isRead)
    }

    @Test(arguments: ["-1", "+4", "0x4", "4 4", "4,4", "", "99999999999999999999", "4a"])
    func `a Content-Length that is no number is answered 400`(length: String) {
        for isStream in [false, true] {
            let found = statuses([0], isStream: isStream) { _ in
                Draft.with(body: "body", length: length).bytes
            }
            #expect(found == [400])
        }
    }

    @Test func `a datagram may lack Content-Length and have more bytes than its message, a stream may not`() throws {
        let without = Draft.with(body: "to the end", length: nil)
        #expect(try request(without.bytes).frame.body == "to the end")
        #expect(try unusable(without.bytes, isStream: true).reason == .contentLength)
        #expect(try request(Draft.with(body: "body and more", length: "4").bytes).frame.body == "body")
        #expect(try unusable(Draft.with(body: "body", length: "5").bytes).reason == .contentLength)
    }

    @Test(arguments: ["Call-ID: c2", "CSeq: 7 OPTIONS", "From: <sip:x@y>", "t: <sip:x@y>", "l: 0"])
    func `a field that may come once must not come twice`(row: String) throws {
        let unusable = try unusable(Draft.with(row).bytes)
        let isRepeated = if case .repeated = unusable.reason { true } else { false }
        #expect(isRepeated, "\(unusable.reason)")
        #expect(unusable.answer?.status == .badRequest)
    }
}
