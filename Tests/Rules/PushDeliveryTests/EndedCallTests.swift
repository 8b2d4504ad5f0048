import Bytes
import JSON
import PushDelivery
import Settings
import Testing
import Timekeeping

/// Makes the end push for a phone that got a push and has not registered before the end of the call.
private func end(_ outcome: EndedCallNotice.Outcome = .missed) -> PushMessage {
    let call = IncomingCall(
        callRef: CallRef(rawValue: 1), callerURI: ByteString("sip:103@example.net"), displayName: ByteString("Anna"),
        isAnonymous: false, receivedAt: sampleDate, callID: ByteString("a84b4c76e66710@pc33.example.net"))
    return .notification(PushNotification(EndedCallNotice(call, outcome), expiresAt: sampleDate + .seconds(30)))
}

@Suite("Pushes that say that a call is over")
struct EndedCallTests {
    @Test(arguments: [
        (
            PayloadProfile.tenDarts,
            #""id":"\#(sampleCode)","message":"","title":"","badge":"10","dst":"call_ended","dsc":"0000000000000001","#
                + #""cfm":"0","sil":"1","org":"10d","ctm":"{\"call_id\":\"a84b4c76e66710@pc33.example.net\",\"sent\":1623753691}""#
        ),
        (
            .ecss10,
            #""type":"call_ended","date":"1623753691","id":"\#(sampleCode)","dst":"call_ended","dsc":"0000000000000001","#
                + #""cfm":"0""#
        ),
        (
            .ecss10Extended,
            #""type":"call_ended","date":"1623753691","id":"\#(sampleCode)","dst":"call_ended","dsc":"0000000000000001","#
                + #""cfm":"0","call_id":"a84b4c76e66710@pc33.example.net","sent":"1623753691""#
        ),
        (
            .linphone,
            #""uuid":"\#(sampleCode)","send-time":"2021-06-15 10:41:31","custom-payload":"{}","#
                + #""from-uri":"sip:103@example.net","display-name":"Anna","call-id":"a84b4c76e66710@pc33.example.net","#
                + #""sip-from":"Anna","loc-key":"Missing call","loc-args":"Anna""#
        ),
    ])
    func `Firebase hurries, and the app finds the call by its reference`(profile: PayloadProfile, data: String) {
        #expect(
            PushSettings.sample(profile).body(push(to: token(.fcm), end()))
                == #"{"message":{"token":"device_token","android":{"priority":"HIGH","ttl":"30s"},"data":{\#(data)}}}"#)
    }

    @Test func `Apple gets no VoIP push for it`() throws {
        let both = token(.apns, "aabb:voip&ccdd:remote", param: "T.com.example.phone.voip&remote")
        let request = try #require(PushSettings.sample(.tenDarts).rendered(push(to: both, end(.answeredElsewhere))))
        #expect(request.url.hasSuffix("/3/device/ccdd"))
        #expect(request.header("apns-push-type") == "background" && request.header("apns-priority") == "5")
        #expect(request.header("apns-topic") == "com.example.phone")
        #expect(
            request.text
                == #"{"aps":{"content-available":1},"id":"\#(sampleCode)","dst":"call_answered_elsewhere","#
                + #""dsc":"0000000000000001","cfm":0,"sil":1,"org":"10d","ctm":{"call_id":"a84b4c76e66710@pc33.example.net","sent":1623753691}}"#
        )
        let voip = token(.apns, "aabb:voip", param: "T.com.example.phone.voip")
        #expect(PushSettings.sample(.tenDarts).render(push(to: voip, end())) == .impossible(.noSuitableToken))
    }

    @Test(arguments: [
        (EndedCallNotice.Outcome.missed, "Missing call"), (.answeredElsewhere, "Accepted elsewhere"),
        (.declinedElsewhere, "Declined elsewhere"),
    ])
    func `Linphone's iPhones read it in the place of the call, as Flexisip writes it`(
        outcome: EndedCallNotice.Outcome, text: String
    ) throws {
        let device = token(.apns, "ccdd", param: "T.com.example.phone.remote")
        let call = try #require(PushSettings.sample(.linphone).rendered(push(to: device, incomingCall())))
        let over = try #require(PushSettings.sample(.linphone).rendered(push(to: device, end(outcome))))
        #expect(over.header("apns-push-type") == "alert")
        #expect(over.header("apns-collapse-id") == "call-0000000000000001")
        #expect(over.header("apns-collapse-id") == call.header("apns-collapse-id"))
        #expect(
            over.text
                == #"{"aps":{"alert":{"loc-key":"\#(text)","loc-args":["Anna"]},"sound":"default","mutable-content":1,"badge":10},"#
                + #""call-id":"a84b4c76e66710@pc33.example.net","uuid":"\#(sampleCode)","send-time":"2021-06-15 10:41:31","#
                + #""from-uri":"sip:103@example.net","display-name":"Anna","pn_ttl":30,"customPayload":{}}"#)
        let silent = PushSettings.sample(.linphone, .background)
        #expect(silent.rendered(push(to: device, end(outcome)))?.header("apns-push-type") == "background")
    }

    @Test func `web push puts it in the place of a call that was not delivered, and needs keys`() throws {
        let url = "https://updates.push.services.mozilla.com/wpush/v2/x"
        let device = token(.webPush, url, param: "\(browserKey).\(browserSecret)")
        let call = try #require(PushSettings.sample(.ecss10).rendered(push(to: device, incomingCall())))
        let over = try #require(PushSettings.sample(.ecss10).rendered(push(to: device, end())))
        #expect(over.header("urgency") == "high" && over.header("ttl") == "30")
        #expect(over.header("topic") != nil && over.header("topic") == call.header("topic"))
        #expect(over.text.contains(#""type":"call_ended""#))
        // The daemon can send no end push, because the app would treat a push without content as a call.
        #expect(
            PushSettings.sample(.ecss10).render(push(to: token(.webPush, url), end())) == .impossible(.noSuitableToken))
    }

    @Test func `a server of one's own has it in its fields`() throws {
        let settings = try gatewaySettings(
            """
            url: https://h/
            body: '{"kind":"{{type}}","ref":"{{call-ref}}","id":"{{call-id}}","ttl":"{{ttl}}"}'
            after-end: push
            """)
        let device = token(.http, "t", param: "gateway")
        for (outcome, word) in [
            (EndedCallNotice.Outcome.missed, "call_ended"), (.answeredElsewhere, "call_answered_elsewhere"),
            (.declinedElsewhere, "call_declined_elsewhere"),
        ] {
            let request = try #require(settings.rendered(push(to: device, end(outcome))))
            #expect(
                request.text
                    == #"{"kind":"\#(word)","ref":"0000000000000001","id":"a84b4c76e66710@pc33.example.net","ttl":30}"#)
        }
    }

    @Test func `a template that does not tell it from a call is refused`() {
        let error = #expect(throws: SettingsError.self) {
            try gatewaySettings("url: https://h/{{call-ref}}\nbody: '{\"text\":\"{{message}}\"}'\nafter-end: push")
        }
        #expect(error?.description.contains("after-end") == true && error?.description.contains("{{type}}") == true)
    }
}
