import Bytes

extension TortureMessage {
    /// The messages of RFC 5118 section 4, by name. The Content-Length values of RFC 5118 are slightly wrong, and
    /// corrected here for bodies with CRLF.
    static let ipv6: [TortureMessage] = [
        register("ipv6-good", .request, "sip:[2001:db8::10]"),
        register("ipv6-bad", .answered(400), "sip:2001:db8::10"),
        register("port-ambiguous", .request, "sip:[2001:db8::10:5070]"),
        register("port-unambiguous", .request, "sip:[2001:db8::10]:5070"),
        TortureMessage(
            "via-received-param-with-delim", .request,
            """
            BYE sip:[2001:db8::10] SIP/2.0
            To: sip:user@example.com;tag=bd76ya
            From: sip:user@example.com;tag=81x2
            Via: SIP/2.0/UDP [2001:db8::9:1];received=[2001:db8::9:255];branch=z9hG4bKas3-111
            Call-ID: SSG9559905523997077@hlau_4100
            Max-Forwards: 70
            CSeq: 321 BYE
            Content-Length: 0
            """),
        TortureMessage(
            "via-received-param-no-delim", .request,
            """
            OPTIONS sip:[2001:db8::10] SIP/2.0
            To: sip:user@example.com
            From: sip:user@example.com;tag=81x2
            Via: SIP/2.0/UDP [2001:db8::9:1];received=2001:db8::9:255;branch=z9hG4bKas3
            Call-ID: SSG95523997077@hlau_4100
            Max-Forwards: 70
            Contact: "Caller" <sip:caller@[2001:db8::9:1]>
            CSeq: 921 OPTIONS
            Content-Length: 0
            """),
        TortureMessage(
            "ipv6-in-sdp", .request,
            """
            INVITE sip:user@[2001:db8::10] SIP/2.0
            To: sip:user@[2001:db8::10]
            From: sip:user@example.com;tag=81x2
            Via: SIP/2.0/UDP [2001:db8::20];branch=z9hG4bKas3-111
            Call-ID: SSG9559905523997077@hlau_4100
            Contact: "Caller" <sip:caller@[2001:db8::20]>
            CSeq: 8612 INVITE
            Max-Forwards: 70
            Content-Type: application/sdp
            Content-Length: 251
            """,
            body: meeting("2001:db8::20", subject: "Live video feed for today's meeting")),
        TortureMessage(
            "mult-ip-in-header", .request,
            """
            BYE sip:user@host.example.net SIP/2.0
            Via: SIP/2.0/UDP [2001:db8::9:1]:6050;branch=z9hG4bKas3-111
            Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKjhja8781hjuaij65144
            Via: SIP/2.0/TCP [2001:db8::9:255];branch=z9hG4bK451jj;received=192.0.2.200
            Call-ID: 997077@lau_4100
            Max-Forwards: 70
            CSeq: 89187 BYE
            To: sip:user@example.net;tag=9817--94
            From: sip:user@example.com;tag=81x2
            Content-Length: 0
            """),
        TortureMessage(
            "mult-ip-in-sdp", .request,
            """
            INVITE sip:user@[2001:db8::10] SIP/2.0
            To: sip:user@[2001:db8::10]
            From: sip:user@example.com;tag=81x2
            Via: SIP/2.0/UDP [2001:db8::9:1];branch=z9hG4bKas3-111
            Call-ID: SSG9559905523997077@hlau_4100
            Contact: "Caller" <sip:caller@[2001:db8::9:1]>
            Max-Forwards: 70
            CSeq: 8912 INVITE
            Content-Type: application/sdp
            Content-Length: 189
            """,
            body: wire(
                """
                v=0
                o=bob 280744730 28977631 IN IP4 host.example.com
                s=
                t=0 0
                m=audio 22334 RTP/AVP 0
                c=IN IP4 192.0.2.1
                m=video 6024 RTP/AVP 107
                c=IN IP6 2001:db8::1
                a=rtpmap:107 H263-1998/90000

                """)),
        TortureMessage(
            "ipv4-mapped-ipv6", .request,
            """
            INVITE sip:user@example.com SIP/2.0
            To: sip:user@example.com
            From: sip:user@east.example.com;tag=81x2
            Via: SIP/2.0/UDP [::ffff:192.0.2.10]:19823;branch=z9hG4bKbh19
            Via: SIP/2.0/UDP [::ffff:192.0.2.2];branch=z9hG4bKas3-111
            Call-ID: SSG9559905523997077@hlau_4100
            Contact: "T. desk phone" <sip:ted@[::ffff:192.0.2.2]>
            CSeq: 612 INVITE
            Max-Forwards: 70
            Content-Type: application/sdp
            Content-Length: 245
            """,
            body: meeting("::ffff:192.0.2.2", subject: "Call me soon, please!")),
        options("ipv6-bug-abnf-3-colons", .request, "[2001:db8:::192.0.2.1]"),
        options("ipv6-correct-abnf-2-colons", .request, "[2001:db8::192.0.2.1]"),
    ]

    private static func register(_ name: String, _ expected: Expectation, _ uri: String) -> TortureMessage {
        TortureMessage(
            name, expected,
            """
            REGISTER \(uri) SIP/2.0
            To: sip:user@example.com
            From: sip:user@example.com;tag=81x2
            Via: SIP/2.0/UDP [2001:db8::9:1];branch=z9hG4bKas3-111
            Call-ID: SSG9559905523997077@hlau_4100
            Max-Forwards: 70
            Contact: "Caller" <sip:caller@[2001:db8::1]>
            CSeq: 98176 REGISTER
            Content-Length: 0
            """)
    }

    private static func options(_ name: String, _ expected: Expectation, _ host: String) -> TortureMessage {
        TortureMessage(
            name, expected,
            """
            OPTIONS sip:user@\(host) SIP/2.0
            To: sip:user@\(host)
            From: sip:user@example.com;tag=810x2
            Via: SIP/2.0/UDP lab1.east.example.com;branch=z9hG4bKas3-111
            Call-ID: G9559905523997077@hlau_4100
            CSeq: 689 OPTIONS
            Max-Forwards: 70
            Content-Length: 0
            """)
    }

    private static func meeting(_ address: String, subject: String) -> [UInt8] {
        wire(
            """
            v=0
            o=assistant 971731711378798081 0 IN IP6 \(address)
            s=\(subject)
            c=IN IP6 \(address)
            t=3338481189 3370017201
            m=audio 6000 RTP/AVP 2
            a=rtpmap:2 G726-32/8000
            m=video 6024 RTP/AVP 107
            a=rtpmap:107 H263-1998/90000

            """)
    }
}
