import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import PushPlanning
import Registration
import SIPGrammar
import Telemetry
import TestSupport
import Testing
import Timekeeping

/// Tests that a client that has proved nothing receives little, and leaves no state in the proxy (T4).
@Suite("Strangers (T4.1 to T4.3)")
struct StrangerTests {
    private static let methods = [
        "INVITE", "OPTIONS", "MESSAGE", "SUBSCRIBE", "BYE", "REFER", "NOTIFY", "FOO", "CANCEL",
    ]

    private func transactions(_ bench: EngineBench) -> Int { bench.engine.figures[.transactions] }

    // MARK: T4.2

    @Test(arguments: methods)
    func `an answer to a stranger leaves no state, and no timer repeats it`(method: String) {
        let bench = EngineBench.authenticating()
        let statuses = story(bench.receive(bench.phoneText(method)))
        #expect(statuses.count == 1)
        #expect(transactions(bench) == 0)
        // After the refusal, the only later event is the report of the missing password (T35.1).
        #expect(bench.pass(.seconds(60)).filter { $0.tracedRecords.isEmpty }.isEmpty)
        #expect(bench.pass(.seconds(600)).isEmpty)
    }

    @Test func `neither does a REGISTER, or a request that is refused for another reason`() {
        let bench = EngineBench.authenticating()
        var answers = story(bench.receive(bench.registerText()))
        answers += story(bench.receive(bench.registerText(callID: "wrong", extra: ["Authorization: Digest nonsense"])))
        for (old, new) in [
            ("Max-Forwards: 70", "Max-Forwards: 0"), ("INVITE sip:", "INVITE http:"),
            ("Max-Forwards: 70", "Proxy-Require: x\r\nMax-Forwards: 70"), ("@example.net SIP", "@elsewhere.org SIP"),
        ] {
            answers += story(bench.receive(bench.phoneText(callID: "\(answers.count)").replacing(old, with: new)))
        }
        #expect(
            answers == [
                "401 register > phone", "401 register > phone", "483 invite > phone", "416 invite > phone",
                "420 invite > phone", "403 invite > phone",
            ])
        #expect(transactions(bench) == 0 && bench.pass(.seconds(60)).isEmpty)
    }

    @Test func `each copy of a request gets the same tag, and its ACK gets nothing`() throws {
        let bench = EngineBench.authenticating()
        let request = bench.phoneText()
        let first = try #require(sentResponse(bench.receive(request)))
        let again = try #require(sentResponse(bench.receive(request)))
        #expect(first.to.tag == again.to.tag && first.to.tag?.isEmpty == false)
        let other = try #require(sentResponse(bench.receive(bench.phoneText(callID: "p2"))))
        #expect(other.to.tag != first.to.tag)
        let invite = try #require(readRequest(request))
        let to = first.frame.firstValue(of: .to)?.string
        #expect(bench.receive(SIPText.hopRequest("ACK", for: invite, to: to)).isEmpty)
        #expect(transactions(bench) == 0)
    }

    @Test func `a client with a password has a transaction`() {
        let bench = EngineBench.authenticating()
        let request = bench.phoneText()
        bench.receiveProved(request, as: "bob")
        #expect(transactions(bench) == 2)
    }

    @Test func `a repeated request with a password is not served twice`() throws {
        let bench = EngineBench.authenticating()
        let request = bench.phoneText("MESSAGE")
        let challenge = try #require(sentResponse(bench.receive(request)))
        let proved = TestDigest.answer(challenge, to: request, as: "bob")
        #expect(story(bench.receive(proved)) == ["message > pbx"])
        #expect(story(bench.receive(proved)) == [])
    }

    // MARK: T4.3

    @Test func `responses and ACKs are never answered`() throws {
        let bench = EngineBench.authenticating()
        let invite = try #require(readRequest(bench.phoneText()))
        #expect(bench.receive(SIPText.hopRequest("ACK", for: invite)).isEmpty)
        #expect(bench.receive(bench.phoneText("ACK")).isEmpty)
        for status: Status in [100, 180, 200, 407, 503] {
            #expect(bench.receive(SIPText.response(status, to: invite, tag: "x")).isEmpty)
        }
        #expect(bench.receive(Array("SIP/2.0 200 OK\r\nVia: x\r\n\r\n".utf8)).isEmpty)
        #expect(bench.receive(Array("ACK sip:a SIP/2.0\r\nVia: x\r\n\r\n".utf8)).isEmpty)
    }

    // MARK: T4.1

    /// The test sends the shortest requests that the proxy can answer, and longer ones. Each answer is at most three
    /// times as long as the request.
    @Test(arguments: methods + ["REGISTER"], ["", "User-Agent: Phone 1\r\n"])
    func `a stranger gets at most three times what it sent`(method: String, row: String) {
        var answered = 0
        for host in ["a", "example.net"] {
            for padding in [0, 10, 50, 200, 800] {
                let bench = EngineBench.authenticating { $0.domains = [ByteString(host)] }
                let text =
                    "\(method) sip:\(host) SIP/2.0\r\nv:SIP/2.0/UDP h;branch=z9hG4bK1;rport\r\nf:<sip:b@\(host)>;tag=1\r\n"
                    + "t:<sip:b@\(host)>\r\ni:1\r\nCSeq:1 \(method)\r\n\(row)"
                    + (padding > 0 ? "s:\(String(repeating: "x", count: padding))\r\n" : "") + "\r\n"
                let sent = bench.receive(Array(text.utf8)) + bench.receive(Array(text.utf8)) + bench.pass(.seconds(70))
                let out = sent.texts.reduce(0) { $0 + $1.utf8.count }
                #expect(out <= 2 * 3 * text.utf8.count, "\(text) \(sent.texts)")
                answered += sent.texts.count
            }
        }
        // The proxy answers every request, even one of a hundred bytes.
        #expect(answered == 20)
    }

    @Test func `a short request is challenged with only one algorithm, which every phone knows`() throws {
        let bench = EngineBench.authenticating {
            $0.digest.realm = "the telephones of a company with a name that is longer than any name has to be"
        }
        func challenges(padding: Int) throws -> [String] {
            let text =
                "REGISTER sip:example.net SIP/2.0\r\nv:SIP/2.0/UDP h;branch=z9hG4bK1\r\nf:<sip:b@example.net>;tag=1\r\n"
                + "t:<sip:b@example.net>\r\ni:1\r\nCSeq:1 REGISTER\r\nUser-Agent: x\(String(repeating: "x", count: padding))\r\n\r\n"
            return try #require(sentResponse(bench.receive(Array(text.utf8)))).frame.values(of: .wwwAuthenticate).map(
                \.string)
        }
        let short = try challenges(padding: 0)
        #expect(short.count == 1 && short[0].contains("algorithm=MD5"))
        let long = try challenges(padding: 100)
        #expect(long.count == 2 && long[0].contains("algorithm=SHA-256"))
    }

    @Test(arguments: [
        "INVITE sip:a SIP/2.0\r\nv:x\r\nf:x\r\nt:x\r\ni:1\r\nCSeq:1 INVITE\r\n\r\n",
        "INVITE sip:a SIP/3.0\r\nv:SIP/2.0/UDP h;rport\r\nf:<sip:a>;tag=1\r\nt:<sip:a>\r\ni:1\r\nCSeq:1 INVITE\r\n\r\n",
        "REGISTER sip:a SIP/2.0\r\nv:SIP/2.0/UDP h;rport\r\nf:<sip:a>;tag=1\r\nt:<sip:a>\r\ni:1\r\nCSeq:1 INVITE\r\n\r\n",
        "X y SIP/2.0\r\nv:;rport\r\nf:\r\nt:\r\ni:\r\nCSeq:\r\n\r\n", "INVITE", "\r\n\r\n",
        "INVITE sip:a SIP/2.0\r\n\r\n",
    ])
    func `an unreadable request gets an equally short answer`(text: String) {
        let bench = EngineBench.authenticating()
        let out = bench.receive(Array(text.utf8)).texts.reduce(0) { $0 + $1.utf8.count }
        #expect(out <= 3 * text.utf8.count)
    }

    // MARK: T7

    @Test func `known and unknown users are answered alike`() throws {
        for method in ["REGISTER", "INVITE", "OPTIONS"] {
            var answers: [[Int]] = []
            for user in ["bob", "bab"] {
                let bench = EngineBench.authenticating { $0.upstream = nil }
                let request =
                    method == "REGISTER"
                    ? bench.registerText(user: user)
                    : bench.phoneText(method, to: "sip:\(user)@example.net", from: "sip:\(user)@example.net")
                let first = try #require(sentResponse(bench.receive(request)))
                let wrong = TestDigest.answer(first, to: request, as: user, password: "guess")
                let second = try #require(sentResponse(bench.receive(wrong)))
                answers.append([first, second].flatMap { [Int($0.status.code), $0.frame.bytes.count] })
            }
            #expect(answers[0] == answers[1], "\(method)")
        }
    }
}

extension ProxyAction {
    /// The timeline records that this action writes.
    fileprivate var tracedRecords: [TimelineChange] { if case .trace(let changes) = self { changes } else { [] } }
}
