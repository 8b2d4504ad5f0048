import Bytes
import JSON
import PushDelivery
import Testing
import Timekeeping

private let device = token(.fcm, "device_token", param: "my-project")
private let listDate = UnixTime(seconds: 1_625_133_614)
private let threeCalls = missedCalls([("103", 1_625_158_716), ("105", 1_625_158_725), ("109", 1_625_158_736)])
private let callDate = UnixTime(seconds: 1_623_753_491)

@Suite("FCM requests (R12, R24, A12, A27)")
struct FCMRequestTests {
    private let settings = PushSettings.sample(.ecss10)
    private let legacy = PushSettings.sample(.ecss10, .alert, .legacy)

    private func call(_ seconds: Int64 = 30) -> PushRequest {
        push(to: device, incomingCall(at: callDate), deadline: callDate + .seconds(seconds))
    }

    @Test func `the old form of an incoming call is the sample`() throws {
        let request = try #require(legacy.rendered(call(), now: callDate))
        #expect(request.path == "/fcm/send")
        #expect(request.header("content-type") == "application/json")
        let expected =
            #"{"to":"device_token","priority":10,"data":{"type":"invite","date":1623753491},"time_to_live":28}"#
        #expect(request.text == expected)
    }

    @Test func `the old form of missed calls is the sample`() {
        let expected =
            #"{"to":"device_token","priority":10,"data":{"type":"missed_calls","date":1625133614,"calls":["#
            + #"{"id":0,"remote_uri":"103","date":1625158716},{"id":1,"remote_uri":"105","date":1625158725},"#
            + #"{"id":2,"remote_uri":"109","date":1625158736}]}}"#
        #expect(legacy.body(push(to: device, threeCalls), now: listDate) == expected)
    }

    @Test func `the new form of an incoming call has strings only`() throws {
        let request = try #require(settings.rendered(call(), now: callDate))
        #expect(request.path == "/v1/projects/my-project/messages:send")
        let expected =
            #"{"message":{"token":"device_token","android":{"priority":"HIGH","ttl":"28s"},"#
            + #""data":{"type":"invite","date":"1623753491"}}}"#
        #expect(request.text == expected)
    }

    @Test func `the new form of missed calls holds the list as one string`() {
        let expected =
            #"{"message":{"token":"device_token","android":{"priority":"HIGH","#
            + #""collapse_key":"missed-00000060ddf43c00"},"data":{"type":"missed_calls","#
            + #""date":"1625133614","calls":"[{\"id\":0,\"remote_uri\":\"103\",\"date\":1625158716},"#
            + #"{\"id\":1,\"remote_uri\":\"105\",\"date\":1625158725},"#
            + #"{\"id\":2,\"remote_uri\":\"109\",\"date\":1625158736}]"}}}"#
        #expect(settings.body(push(to: device, threeCalls), now: listDate) == expected)
    }

    @Test(arguments: [
        (0, 28), (20, 28), (999, 28), (1_000, 27), (1_500, 27), (27_000, 1), (28_000, 0), (29_900, 0), (40_000, 0),
    ])
    func `the life of a call push is the rest of the ring timeout less two seconds`(elapsed: Int, expected: Int) throws
    {
        let body = try #require(legacy.body(call(), now: callDate + .milliseconds(elapsed)))
        #expect(body.hasSuffix("\"time_to_live\":\(expected)}"))
    }

    @Test(arguments: [FCMBodyFormat.v1, .legacy])
    func `a long list loses its oldest calls`(format: FCMBodyFormat) throws {
        let settings = PushSettings.sample(.ecss10, .alert, format)
        let calls = (0..<100).map { (String(repeating: "\"", count: 40) + "\($0)", Int64(1_625_000_000 + $0)) }
        let body = try JSONValue(try #require(settings.rendered(push(to: device, missedCalls(calls)))?.body))
        let list: [JSONValue]
        if format == .v1 {
            let text = try #require(body["message"]?["data"]?["calls"]?.string)
            // FCM's limit of 4,096 bytes counts all keys and values.
            #expect(text.utf8.count + "typemissed_callsdate1623753691calls".utf8.count <= 4096)
            list = try #require(try JSONValue(Array(text.utf8)).array)
        } else {
            list = try #require(body["data"]?["calls"]?.array)
        }
        #expect(list.count > 20 && list.count < 100)
        #expect(list.last?["remote_uri"]?.string == calls[99].0)
        #expect(list.map { $0["id"]?.integer } == (0..<list.count).map { Int64($0) })
    }

    @Test func `an empty list is a list`() {
        #expect(legacy.body(push(to: device, missedCalls([])))?.hasSuffix(#""calls":[]}}"#) == true)
    }

    @Test func `without a project there is no push`() {
        var settings = settings
        settings.fcm.projectID = nil
        guard case .impossible(.payloadRefused) = settings.render(call(), now: callDate) else {
            return #expect(Bool(false))
        }
    }
}
