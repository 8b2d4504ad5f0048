package import Addressing

/// The messages of the load, as long and with as many fields as a real softphone's messages.
package enum MessageTexts {
    package static let domain = "bench.example"

    /// The app of nearly all phones; the app `slowApp` has a slow push provider.
    package static let app = "809731204417"
    package static let slowApp = "slow"

    package static func register(
        from phone: Endpoint, app: String = app, over transport: String = "udp"
    ) -> MessageTemplate {
        MessageTemplate(
            lines([
                "REGISTER sip:\(domain) SIP/2.0",
                "Via: SIP/2.0/\(transport.uppercased()) \(phone);branch=z9hG4bK%bbbbbbbbbbbbbbb;rport",
                "From: <sip:u%uuuuuuu@\(domain)>;tag=~kRvU4m2r",
                "To: <sip:u%uuuuuuu@\(domain)>",
                "CSeq: 1%cccccc REGISTER",
                "Call-ID: dY7q%uuuuuuu~Tq",
                "Max-Forwards: 70",
                "Supported: replaces, outbound, gruu, path, record-aware",
                "Accept: application/sdp, text/plain, application/vnd.gsma.rcs-ft-http+xml",
                "Contact: <sip:u%uuuuuuu@\(phone);pn-provider=fcm;pn-prid=dQw4w9WgXcQ8vN2kLm5pRt:"
                    + "APA91bHPRgkF3JUikC4ENAHEeMrd41Zxv3hVZjC9KtT8OvPVGJ-hQMRKRrZuJAEcl7B338qju59zJMjw2DELjzEvx"
                    + "wYv7hH5Ynpc1ODQ0aT\(tokenMark)%uuuuuuu_5yZ2bQ7c0xJ4;pn-param=\(app);pn-silent=1;"
                    + "pn-timeout=0;transport=\(transport)>;message-expires=2419200;"
                    + "+sip.instance=\"<urn:uuid:6f5c1d5e-40f2-4d8b-9b3a-0000%uuuuuuu>\"",
                "Expires: 2592000",
                "User-Agent: LinphoneAndroid/5.2.5 (Pixel 7) LinphoneSDK/5.3.47 (tags/5.3.47)",
                "Content-Length: 0",
            ]))
    }

    /// The text before the user's number in push tokens.
    package static let tokenMark = "_AOR"

    /// Returns the INVITE of a user's only call, with the user's number in its Call-ID.
    package static func invite(from caller: Endpoint) -> MessageTemplate {
        MessageTemplate(
            lines([
                "INVITE sip:u%uuuuuuu@\(domain) SIP/2.0",
                "Via: SIP/2.0/UDP \(caller);branch=z9hG4bKi%bbbbbbbbbbbbbb;rport",
                "From: \"Caller\" <sip:caller@\(domain)>;tag=c%uuuuuuu",
                "To: <sip:u%uuuuuuu@\(domain)>",
                "CSeq: 20 INVITE",
                "Call-ID: \(callIDMark)%uuuuuuu~pN4d",
                "Max-Forwards: 70",
                "Supported: replaces, outbound, gruu, path, record-aware",
                "Allow: INVITE, ACK, CANCEL, OPTIONS, BYE, REFER, NOTIFY, MESSAGE, SUBSCRIBE, INFO, PRACK, UPDATE",
                "Contact: <sip:caller@\(caller);transport=udp>",
                "User-Agent: LinphoneAndroid/5.2.5 (Pixel 7) LinphoneSDK/5.3.47 (tags/5.3.47)",
                "Content-Type: application/sdp",
                "Content-Length: \(sessionDescription.utf8.count)",
            ]) + sessionDescription)
    }

    package static let callIDMark = "call"

    package static func callID(of user: Int) -> String {
        let number = String(user)
        return callIDMark + String(repeating: "0", count: max(0, 8 - number.count)) + number + "~pN4d"
    }

    private static let sessionDescription = [
        "v=0", "o=caller 3461 1954 IN IP4 127.0.0.1", "s=Talk", "c=IN IP4 127.0.0.1", "t=0 0",
        "a=rtcp-xr:rcvr-rtt=all:10000 stat-summary=loss,dup,jitt,TTL voip-metrics", "a=record:off",
        "m=audio 7078 RTP/AVP 96 97 98 0 8 101 99 100", "a=rtpmap:96 opus/48000/2", "a=fmtp:96 useinbandfec=1",
        "a=rtpmap:97 speex/16000", "a=fmtp:97 vbr=on", "a=rtpmap:98 speex/8000", "a=fmtp:98 vbr=on",
        "a=rtpmap:101 telephone-event/48000", "a=rtpmap:99 telephone-event/16000",
        "a=rtpmap:100 telephone-event/8000", "a=rtcp-fb:* trr-int 5000", "a=rtcp-fb:* ccm tmmbr", "",
    ].joined(separator: "\r\n")

    private static func lines(_ lines: [String]) -> String { lines.joined(separator: "\r\n") + "\r\n\r\n" }
}
