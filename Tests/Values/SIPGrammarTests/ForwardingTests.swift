import Addressing
import Bytes
import SIPGrammar
import Testing

@Suite("Forwarding")
struct ForwardingTests {
    private static let invite = """
        INVITE sip:bob@pn.test;pn-prid=secret SIP/2.0
        X-First: kept,  as "it" came
        Route: <sip:a;lr>, <sip:b;lr>
        route: <sip:c;lr>
        v: SIP/2.0/UDP h;rport , SIP/2.0/TCP i
        Via: SIP/2.0/TCP j
        Record-Route: <sip:old;lr>
        Max-Forwards: 70
        f: <sip:alice@pn.test>;tag=1
        T :
         <sip:bob@pn.test>
        Content-Length: 6
        i: c1
        CSeq: 7 INVITE
        m: <sip:u@h;pn-prid=secret;ob;PN-Param=x,y>;q=1;pn-provider=apns , "pn-z;pn-x=" <sip:v@h;pn-purr=p;pn-a>
        Proxy-Authorization: Digest username="alice"
        pn-unknown: pn-prid=kept

        a\u{0}b\nc
        """

    private var edits: RequestEdits {
        var edits = RequestEdits(
            requestURI: ByteString("sip:bob@192.0.2.5;ob;pn-prid=new"),
            via: ByteString("SIP/2.0/UDP us;branch=z9hG4bKours"), maxForwards: 69)
        edits.recordRoutes = [ByteString("<sip:us;lr;t=2>"), ByteString("<sip:us;lr>")]
        edits.topViaAddition = ViaAddition(Endpoint(IPAddress(v4: 0x0a00_0009), 40_000), setsPort: true)
        edits.removed = [.proxyAuthorization]
        edits.added = [AddedField("X-Added", ByteString("1"))]
        return edits
    }

    @Test func `only the requested fields change`() throws {
        let sent = try request(Self.invite).forwarded(edits)
        #expect(
            sent.bytes.lines == """
                INVITE sip:bob@192.0.2.5;ob SIP/2.0
                Via: SIP/2.0/UDP us;branch=z9hG4bKours
                Record-Route: <sip:us;lr;t=2>
                Record-Route: <sip:us;lr>
                X-First: kept,  as "it" came
                Route: <sip:a;lr>, <sip:b;lr>
                route: <sip:c;lr>
                v: SIP/2.0/UDP h;received=10.0.0.9;rport=40000 , SIP/2.0/TCP i
                Via: SIP/2.0/TCP j
                Record-Route: <sip:old;lr>
                Max-Forwards: 69
                f: <sip:alice@pn.test>;tag=1
                T :
                 <sip:bob@pn.test>
                i: c1
                CSeq: 7 INVITE
                m: <sip:u@h;ob>;q=1 , "pn-z;pn-x=" <sip:v@h;pn-purr=p>
                pn-unknown: pn-prid=kept
                X-Added: 1
                Content-Length: 6

                a\u{0}b\nc
                """)
    }

    @Test func `routes are replaced as a whole, Max-Forwards and Content-Length added`() throws {
        var text = Self.invite.replacing("Max-Forwards: 70\n", with: "").replacing("Content-Length: 6\n", with: "")
        var edits = edits
        edits.routes = [ByteString("<sip:next;lr>")]
        edits.removed = []
        edits.keepsPushParameters = true
        let sent = try request(text).forwarded(edits).bytes.lines
        #expect(sent.contains("\nRecord-Route: <sip:us;lr>\nRoute: <sip:next;lr>\nMax-Forwards: 69\nX-First"))
        #expect(!sent.contains("<sip:a;lr>") && !sent.contains("<sip:c;lr>"))
        #expect(sent.contains("\nX-Added: 1\nContent-Length: 6\n\na"))
        #expect(sent.hasPrefix("INVITE sip:bob@192.0.2.5;ob;pn-prid=new SIP/2.0\n"))
        #expect(sent.contains("PN-Param=x,y>"))
        edits.routes = []
        text = try request(text).forwarded(edits).bytes.lines
        #expect(!text.contains("\nRoute:") && !text.contains("\nroute:"))
    }

    @Test func `the places of rows are right, for ACK and CANCEL`() throws {
        for routes in [nil, [ByteString("<sip:next;lr>")]] as [[ByteString]?] {
            var edits = edits
            edits.routes = routes
            let sent = try request(Self.invite).forwarded(edits)
            let text = { (range: Range<Int>) in Array(sent.bytes[range]).lines }
            #expect(text(sent.requestURI) == "sip:bob@192.0.2.5;ob")
            #expect(text(sent.viaRow) == "Via: SIP/2.0/UDP us;branch=z9hG4bKours\n")
            #expect(text(sent.fromRow) == "f: <sip:alice@pn.test>;tag=1\n")
            #expect(text(sent.toRow) == "T :\n <sip:bob@pn.test>\n")
            #expect(text(sent.callIDRow) == "i: c1\n")
            let expected =
                routes == nil ? "Route: <sip:a;lr>, <sip:b;lr>\nroute: <sip:c;lr>\n" : "Route: <sip:next;lr>\n"
            #expect(sent.routeRows.map(text).joined() == expected)
            #expect(
                sent.acknowledgement(to: ByteString("<sip:bob@pn.test>;tag=b")).lines == """
                    ACK sip:bob@192.0.2.5;ob SIP/2.0
                    Via: SIP/2.0/UDP us;branch=z9hG4bKours
                    \(expected)f: <sip:alice@pn.test>;tag=1
                    To: <sip:bob@pn.test>;tag=b
                    i: c1
                    CSeq: 7 ACK
                    Max-Forwards: 70
                    Content-Length: 0


                    """)
            let cancel = sent.cancellation(reasons: [ByteString("SIP;cause=200")])
            let read = try request(cancel.bytes.lines)
            #expect(read.method == .cancel && read.cseq == CSeq(number: 7, method: .cancel))
            #expect(read.via.branch?.string == "z9hG4bKours")
            #expect(cancel.bytes.lines.contains("\nReason: SIP;cause=200\nContent-Length: 0\n\n"))
            #expect(Array(cancel.bytes[cancel.requestURI]).lines == "sip:bob@192.0.2.5;ob")
            #expect(cancel.routeRows.map { Array(cancel.bytes[$0]).lines }.joined() == expected)
        }
    }

    private static let ok = """
        SIP/2.0 200 = all right
        Via: SIP/2.0/UDP us;branch=z9hG4bKours , SIP/2.0/UDP h;rport=5 ,
         SIP/2.0/TCP i
        v: SIP/2.0/TCP j
        f: <sip:alice@pn.test>;tag=1
        To: <sip:bob@pn.test>;tag=b
        Call-ID: c1
        CSeq: 7 INVITE
        Contact: <sip:bob@h;pn-prid=secret;transport=tcp>
        WWW-Authenticate: Digest realm="r"
        l: 4

        body
        """

    @Test func `a response loses its topmost Via value and the secrets in Contact`() throws {
        let relayed = try response(Self.ok).withoutTopVia(
            dropping: [.wwwAuthenticate], adding: [AddedField("X-Added", ByteString("1"))])
        #expect(
            relayed.lines == """
                SIP/2.0 200 = all right
                Via: SIP/2.0/UDP h;rport=5 ,
                 SIP/2.0/TCP i
                v: SIP/2.0/TCP j
                f: <sip:alice@pn.test>;tag=1
                To: <sip:bob@pn.test>;tag=b
                Call-ID: c1
                CSeq: 7 INVITE
                Contact: <sip:bob@h;transport=tcp>
                l: 4
                X-Added: 1

                body
                """)
    }

    @Test func `a Via row with one value is removed completely, and a missing length is added`() throws {
        let text = Self.ok.replacing(" , SIP/2.0/UDP h;rport=5 ,\n SIP/2.0/TCP i", with: "").replacing(
            "l: 4\n", with: "")
        let relayed = try response(text).withoutTopVia().lines
        #expect(relayed.hasPrefix("SIP/2.0 200 = all right\nv: SIP/2.0/TCP j\nf:"))
        #expect(relayed.hasSuffix("\nContent-Length: 4\n\nbody"))
    }

    @Test(
        arguments: [
            ("sip:u@h", "sip:u@h"), ("sip:u@h;pn-prid=a", "sip:u@h"), ("sip:u@h;pn-a;b;pn-c=d?x=y", "sip:u@h;b?x=y"),
            ("sip:u@h;PN-A=1;%70n-b=2;p%6e-c;%50%4E%2D", "sip:u@h"),
            ("sip:u@h;pn-purr=1;pn-purrs=2", "sip:u@h;pn-purr=1"),
            ("sip:u;pn-x=1@h;pn-y", "sip:u;pn-x=1@h"), ("sip:h;pn-x=1", "sip:h"),
            ("sip:u@h;x=pn-1;xpn-a", "sip:u@h;x=pn-1;xpn-a"),
            ("\"a;pn-x=1\" <sip:u@h;pn-a=1>;pn-b=\";>,\";q=1", "\"a;pn-x=1\" <sip:u@h>;q=1"),
            ("<sip:u@h> ; pn-a = 1 ;b", "<sip:u@h> ;b"), ("sip:u@h;pn-", "sip:u@h"), ("sip:u@h;pn", "sip:u@h;pn"),
            ("", ""),
            ("\"unclosed;pn-a", "\"unclosed;pn-a"), ("<sip:u@h;pn-a=\"b", "<sip:u@h"),
            ("<sip:u@h;pn-a=b,c;d>", "<sip:u@h;d>"),
            ("<sip:u@h;a=\";pn-b=c>;pn-d=\"x\";e", "<sip:u@h;a=\">;e"), ("<sip:u@h>;pn-a=b?c>d", "<sip:u@h>"),
            ("sip:u@h;pn-a=b,c;d?e", "sip:u@h;d?e"), ("sip:u@h;%7", "sip:u@h;%7"),
        ])
    func `push parameters end here`(value: String, expected: String) {
        #expect(ByteString(value).withoutPushParameters().string == expected)
    }
}
