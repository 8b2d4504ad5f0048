import Bytes
import JSON
import OTLP
import Testing

/// Tests the rules of the JSON form in the specification of opentelemetry-proto, section "JSON Protobuf Encoding".
@Suite("Requests with spans")
struct OTLPWriterTests {
    private let trace = TraceID(ofCall: ByteString("a84b4c76e66710@pbx"))
    private let request = ExportRequest(
        resource: [TraceAttribute("service.name", "sippushd")], scope: "sippushd", version: "1.0")

    private func span(_ change: (inout TraceSpan) -> Void = { _ in }) -> TraceSpan {
        var span = TraceSpan(
            "INVITE", .server, in: trace, id: SpanID(of: ByteString("a")), from: 1_764_000_000_000_000_001,
            to: 1_764_000_003_120_000_000)
        change(&span)
        return span
    }

    private func read(_ span: TraceSpan) throws -> JSONValue { try JSONValue(span.json) }

    @Test func `a request has the form of the published example`() throws {
        var span = span()
        span.attributes = [TraceAttribute("sip.status_code", 200)]
        span.events = [.init("push sent", at: 1_764_000_000_084_000_000)]
        let child = TraceSpan(
            "push", .client, in: trace, id: SpanID(of: ByteString("b")), parent: span.id, from: 5, to: 6)
        let body = String(decoding: request.body([span.json, child.json]), as: UTF8.self)
        let expected = #"""
            {"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"sippushd"}}]},\#
            "scopeSpans":[{"scope":{"name":"sippushd","version":"1.0"},"spans":[\#
            {"traceId":"\#(trace)","spanId":"\#(span.id)","name":"INVITE","kind":2,\#
            "startTimeUnixNano":"1764000000000000001","endTimeUnixNano":"1764000003120000000",\#
            "attributes":[{"key":"sip.status_code","value":{"intValue":"200"}}],\#
            "events":[{"timeUnixNano":"1764000000084000000","name":"push sent"}]},\#
            {"traceId":"\#(trace)","spanId":"\#(child.id)","parentSpanId":"\#(span.id)","name":"push","kind":3,\#
            "startTimeUnixNano":"5","endTimeUnixNano":"6"}]}]}]}
            """#
        #expect(body == expected)
        #expect((try? JSONValue(request.body([span.json]))) != nil)
    }

    @Test func `the id of a trace is the start of the digest of the Call-ID`() {
        // Command for the expected trace id: printf %s a84b4c76e66710@pbx | sha256sum | cut -c1-32
        #expect("\(trace)" == "850702b9d5d451b5a9b25bcdb9f82f32")
        #expect(TraceID(ofCall: ByteString("a")) != TraceID(ofCall: ByteString("b")))
    }

    @Test func `ids are lower-case hexadecimal with leading zeros, and never zero`() {
        for number in 0..<2000 {
            let (trace, span) = (
                "\(TraceID(ofCall: ByteString("\(number)")))", "\(SpanID(of: ByteString("\(number)")))"
            )
            for (text, length) in [(trace, 32), (span, 16)] {
                #expect(text.utf8.count == length)
                #expect(text.allSatisfy { "0123456789abcdef".contains($0) } && text.contains { $0 != "0" })
            }
        }
        #expect(SpanID(of: ByteString("ab"), ByteString("c")) != SpanID(of: ByteString("a"), ByteString("bc")))
    }

    @Test func `numbers of 64 bits are texts, and kinds and status codes are numbers`() throws {
        let value = try read(
            span {
                $0.attributes = [TraceAttribute("a", Int64.max), TraceAttribute("b", UInt64.max)]
                $0.failure = "no phone came in time"
            })
        #expect(value["kind"]?.integer == 2)
        #expect(value["startTimeUnixNano"]?.string == "1764000000000000001")
        #expect(value["attributes"]?.array?.first?["value"]?["intValue"]?.string == "9223372036854775807")
        #expect(value["attributes"]?.array?.last?["value"]?["intValue"]?.string == "9223372036854775807")
        #expect(value["status"]?["code"]?.integer == 2)
        #expect(value["status"]?["message"]?.string == "no phone came in time")
        #expect(value["parentSpanId"] == nil)
    }

    @Test func `texts from outside are escaped, repaired and cut`() throws {
        let long = String(repeating: "é", count: 300)
        let value = try read(
            span {
                $0.attributes = [
                    TraceAttribute("a", ByteString(Array("x\"}\u{1}\n".utf8) + [0xff])), TraceAttribute("b", long),
                ]
                $0.failure = long
            })
        let texts = value["attributes"]?.array?.map { $0["value"]?["stringValue"]?.string }
        #expect(texts == ["x\"}\u{1}\n\u{fffd}", String(repeating: "é", count: 128)])
        #expect(value["status"]?["message"]?.string?.utf8.count == 256)
    }

    @Test func `a clock that jumps back gives no negative duration and no negative time`() throws {
        let back = TraceSpan("ring", .client, in: trace, id: SpanID(of: ByteString("a")), from: 10, to: 3)
        #expect(back.start == 10 && back.end == 10)
        let early = TraceSpan("ring", .client, in: trace, id: SpanID(of: ByteString("a")), from: -10, to: -3)
        #expect(early.start == 0 && early.end == 0)
    }

    // MARK: Answers

    private func answer(_ status: Int, _ body: String = "", retryAfter: String? = nil) -> ExportAnswer {
        ExportAnswer(status: status, body: Array(body.utf8), retryAfter: retryAfter)
    }

    @Test func `an answer of the collector says whether the spans are sent again`() {
        #expect(answer(200, "{}") == .taken(rejected: 0, message: ""))
        #expect(answer(200, "not JSON") == .taken(rejected: 0, message: ""))
        #expect(
            answer(200, #"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}"#)
                == .taken(rejected: 3, message: "too old"))
        #expect(answer(200, #"{"partialSuccess":{"rejectedSpans":2}}"#) == .taken(rejected: 2, message: ""))
        #expect(answer(200, #"{"partialSuccess":{"rejectedSpans":"-2"}}"#) == .taken(rejected: 0, message: ""))
        for status in [429, 502, 503, 504] {
            #expect(answer(status) == .again(after: nil, message: "status \(status)"))
            #expect(answer(status, retryAfter: "17") == .again(after: 17, message: "status \(status)"))
            #expect(answer(status, retryAfter: "-1") == .again(after: 0, message: "status \(status)"))
            #expect(
                answer(status, retryAfter: "Sun, 06 Nov 1994 08:49:37 GMT")
                    == .again(after: nil, message: "status \(status)"))
        }
        for status in [301, 307, 400, 401, 403, 404, 413, 415, 500, 501] {
            #expect(answer(status) == .refused(message: "status \(status)"))
        }
        #expect(answer(400, #"{"code":3,"message":"bad id"}"#) == .refused(message: "status 400: bad id"))
    }

    @Test func `a long message of the collector is cut`() {
        let long = String(repeating: "x", count: 5000)
        guard case .refused(let message) = answer(400, "{\"message\":\"\(long)\"}") else {
            Issue.record("expected a refusal")
            return
        }
        #expect(message.count < 250)
    }
}
