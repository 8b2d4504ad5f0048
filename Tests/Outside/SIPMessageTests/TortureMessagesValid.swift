extension TortureMessage {
    /// The valid torture-test messages of RFC 4475 section 3.1.1.
    static let valid: [TortureMessage] = [
        TortureMessage(
            "wsinv", .request,
            #"""
            INVITE sip:vivekg@chair-dnrc.example.com;unknownparam SIP/2.0
            TO :
             sip:vivekg@chair-dnrc.example.com ;   tag    = 1918181833n
            from   : "J Rosenberg \\\""       <sip:jdrosen@example.com>
              ;
              tag = 98asjd8
            MaX-fOrWaRdS: 0068
            Call-ID: wsinv.ndaksdj@192.0.2.1
            Content-Length   : 150
            cseq: 0009
              INVITE
            Via  : SIP  /   2.0
             /UDP
                192.0.2.2;branch=390skdjuw
            s :
            NewFangledHeader:   newfangled value
             continued newfangled value
            UnknownHeaderWithUnusualValue: ;;,,;;,;
            Content-Type: application/sdp
            Route:
             <sip:services.example.com;lr;unknownwith=value;unknown-no-value>
            v:  SIP  / 2.0  / TCP     spindle.example.com   ;
              branch  =   z9hG4bK9ikj8  ,
             SIP  /    2.0   / UDP  192.168.255.111   ; branch=
             z9hG4bK30239
            m:"Quoted string \"\"" <sip:jdrosen@example.com> ; newparam =
                  newvalue ;
              secondparam ; q = 0.33
            """#, body: sdp(origin: "192.0.2.3", connection: "192.0.2.4")),
        // The RFC's grammar allows BEL, NUL and DEL in quoted pairs. The reader refuses control characters with 400,
        // because other programs often misread them. The message `intmeth-printable` is the same without control
        // characters.
        intmeth("intmeth", .answered(400), to: "\"BEL:\\\u{07} NUL:\\\u{00} DEL:\\\u{7F}\""),
        intmeth("intmeth-printable", .request, to: #""BEL:\a NUL:\b DEL:\c""#),
        TortureMessage(
            "esc01", .request,
            """
            INVITE sip:sips%3Auser%40example.com@example.net SIP/2.0
            To: sip:%75se%72@example.com
            From: <sip:I%20have%20spaces@example.net>;tag=938
            Max-Forwards: 87
            i: esc01.239409asdfakjkn23onasd0-3234
            CSeq: 234234 INVITE
            Via: SIP/2.0/UDP host5.example.net;branch=z9hG4bKkdjuw
            C: application/sdp
            Contact:
              <sip:cal%6Cer@host5.example.net;%6C%72;n%61me=v%61lue%25%34%31>
            Content-Length: 150
            """, sdp: "192.0.2.1"),
        TortureMessage(
            "escnull", .request,
            """
            REGISTER sip:example.com SIP/2.0
            To: sip:null-%00-null@example.com
            From: sip:null-%00-null@example.com;tag=839923423
            Max-Forwards: 70
            Call-ID: escnull.39203ndfvkjdasfkq3w4otrq0adsfdfnavd
            CSeq: 14398234 REGISTER
            Via: SIP/2.0/UDP host5.example.com;branch=z9hG4bKkdjuw
            Contact: <sip:%00@host5.example.com>
            Contact: <sip:%00%00@host5.example.com>
            L:0
            """),
        TortureMessage(
            "esc02", .request,
            """
            RE%47IST%45R sip:registrar.example.com SIP/2.0
            To: "%Z%45" <sip:resource@example.com>
            From: "%Z%45" <sip:resource@example.com>;tag=f232jadfj23
            Call-ID: esc02.asdfnqwo34rq23i34jrjasdcnl23nrlknsdf
            Via: SIP/2.0/TCP host.example.com;branch=z9hG4bK209%fzsnel234
            CSeq: 29344 RE%47IST%45R
            Max-Forwards: 70
            Contact: <sip:alias1@host1.example.com>
            C%6Fntact: <sip:alias2@host2.example.com>
            Contact: <sip:alias3@host3.example.com>
            l: 0
            """),
        TortureMessage(
            "lwsdisp", .request,
            """
            OPTIONS sip:user@example.com SIP/2.0
            To: sip:user@example.com
            From: caller<sip:caller@example.com>;tag=323
            Max-Forwards: 70
            Call-ID: lwsdisp.1234abcd@funky.example.com
            CSeq: 60 OPTIONS
            Via: SIP/2.0/UDP funky.example.com;branch=z9hG4bKkdjuw
            l: 0
            """),
        longreq,
        TortureMessage(
            "dblreq", .request,
            """
            REGISTER sip:example.com SIP/2.0
            To: sip:j.user@example.com
            From: sip:j.user@example.com;tag=43251j3j324
            Max-Forwards: 8
            I: dblreq.0ha0isndaksdj99sdfafnl3lk233412
            Contact: sip:j.user@host.example.com
            CSeq: 8 REGISTER
            Via: SIP/2.0/UDP 192.0.2.125;branch=z9hG4bKkdjuw23492
            Content-Length: 0


            INVITE sip:joe@example.com SIP/2.0
            t: sip:joe@example.com
            From: sip:caller@example.net;tag=141334
            Max-Forwards: 8
            Call-ID: dblreq.0ha0isnda977644900765@192.0.2.15
            CSeq: 8 INVITE
            Via: SIP/2.0/UDP 192.0.2.15;branch=z9hG4bKkdjuw380234
            Content-Type: application/sdp
            Content-Length: 150
            """, sdp: "192.0.2.15"),
        TortureMessage(
            "semiuri", .request,
            """
            OPTIONS sip:user;par=u%40example.net@example.com SIP/2.0
            To: sip:j_user@example.com
            From: sip:caller@example.org;tag=33242
            Max-Forwards: 3
            Call-ID: semiuri.0ha0isndaksdj
            CSeq: 8 OPTIONS
            Accept: application/sdp, application/pkcs7-mime,
                    multipart/mixed, multipart/signed,
                    message/sip, message/sipfrag
            Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKkdjuw
            l: 0
            """),
        TortureMessage(
            "transports", .request,
            """
            OPTIONS sip:user@example.com SIP/2.0
            To: sip:user@example.com
            From: <sip:caller@example.com>;tag=323
            Max-Forwards: 70
            Call-ID:  transports.kijh4akdnaqjkwendsasfdj
            Accept: application/sdp
            CSeq: 60 OPTIONS
            Via: SIP/2.0/UDP t1.example.com;branch=z9hG4bKkdjuw
            Via: SIP/2.0/SCTP t2.example.com;branch=z9hG4bKklasjdhf
            Via: SIP/2.0/TLS t3.example.com;branch=z9hG4bK2980unddj
            Via: SIP/2.0/UNKNOWN t4.example.com;branch=z9hG4bKasd0f3en
            Via: SIP/2.0/TCP t5.example.com;branch=z9hG4bK0a9idfnee
            l: 0
            """),
        mpart01,
        TortureMessage(
            "unreason", .response,
            """
            SIP/2.0 200 = 2**3 * 5**2 но сто девяносто девять - простое
            Via: SIP/2.0/UDP 192.0.2.198;branch=z9hG4bK1324923
            Call-ID: unreason.1234ksdfak3j2erwedfsASdf
            CSeq: 35 INVITE
            From: sip:user@example.com;tag=11141343
            To: sip:user@example.edu;tag=2229
            Content-Length: 154
            Content-Type: application/sdp
            Contact: <sip:user@host198.example.com>
            """, sdp: "192.0.2.198"),
        TortureMessage(
            "noreason", .response,
            """
            SIP/2.0 100\u{20}
            Via: SIP/2.0/UDP 192.0.2.105;branch=z9hG4bK2398ndaoe
            Call-ID: noreason.asndj203insdf99223ndf
            CSeq: 35 INVITE
            From: <sip:user@example.com>;tag=39ansfi3
            To: <sip:user@example.edu>;tag=902jndnke3
            Content-Length: 0
            Contact: <sip:user@host105.example.com>
            """),
    ]

    private static func intmeth(_ name: String, _ expected: Expectation, to display: String) -> TortureMessage {
        TortureMessage(
            name, expected,
            #"""
            !interesting-Method0123456789_*+`.%indeed'~ sip:1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*:&it+has=1,\#
            weird!*pas$wo~d_too.(doesn't-it)@example.com SIP/2.0
            Via: SIP/2.0/TCP host1.example.com;branch=z9hG4bK-.!%66*_+`'~
            To: \#(display) <sip:1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*@example.com>
            From: token1~` token2'+_ token3*%!.- <sip:mundane@example.com>;fromParam''~+*_!.-%="работающий";\#
            tag=_token~1'+`*%!-.
            Call-ID: intmeth.word%ZK-!.*_+'@word`~)(><:\/"][?}{
            CSeq: 139122385 !interesting-Method0123456789_*+`.%indeed'~
            Max-Forwards: 255
            extensionHeader-!.%*+_`'~:\#u{FEFF}大停電
            Content-Length: 0
            """#)
    }

    private static let longreq: TortureMessage = {
        func times(_ count: Int, _ text: String) -> String { String(repeating: text, count: count) }
        let caller = times(5, "amazinglylongcallername")
        let spellings = [
            "Via", "v", "V", "Via", "ViA", "VIa", "VIA", "via", "viA", "vIa", "vIA", "V ", "v ", "V  ", "v  ", "Via ",
            "Via  ",
        ]
        let vias = (1...33).reversed().map { number in
            let place = 33 - number
            return "\(place < spellings.count ? spellings[place] : "Via"): SIP/2.0/TCP sip\(number).example.com"
        }
        return TortureMessage(
            "longreq", .request,
            """
            INVITE sip:user@example.com SIP/2.0
            To: "I have a user name of \(times(10, "extreme")) proportion"<sip:user@example.com:6000;\
            unknownparam1=very\(times(20, "long"))value;longparam\(times(25, "name"))=shortvalue;\
            very\(times(25, "long"))ParameterNameWithNoValue>
            F: sip:\(caller)@example.net;tag=12\(times(50, "982"))424;unknownheaderparam\(times(20, "name"))=\
            unknowheaderparam\(times(15, "value"));unknownValueless\(times(10, "paramname"))
            Call-ID: longreq.one\(times(20, "really"))longcallid
            CSeq: 3882340 INVITE
            Unknown-\(times(20, "Long"))-Name: unknown-\(times(20, "long"))-value; \
            unknown-\(times(20, "long"))-parameter-name = unknown-\(times(20, "long"))-parameter-value
            \(vias.joined(separator: "\n"))
            Via: SIP/2.0/TCP host.example.com;received=192.0.2.5;branch=very\(times(50, "long"))branchvalue
            Max-Forwards: 70
            Contact: <sip:\(caller)@host5.example.net>
            Content-Type: application/sdp
            l: 150
            """, sdp: "192.0.2.1")
    }()

    private static let mpart01: TortureMessage = {
        let boundary = "7a9cbec02ceef655"
        let body =
            wire(
                """
                --\(boundary)
                Content-Type: text/plain
                Content-Transfer-Encoding: binary

                Hello
                --\(boundary)
                Content-Type: application/octet-stream
                Content-Transfer-Encoding: binary


                """) + [0x30, 0x82, 0x01, 0x52, 0x06, 0x09, 0x00, 0x0d, 0x0a, 0x0d, 0x0a, 0xff, 0x80, 0x1a]
            + wire("\n--\(boundary)--\n")
        return TortureMessage(
            "mpart01", .request,
            """
            MESSAGE sip:kumiko@example.org SIP/2.0
            Via: SIP/2.0/UDP 127.0.0.1:5070;branch=z9hG4bK-d87543-4dade06d0bdb11ee-1--d87543-;rport
            Max-Forwards: 70
            Route: <sip:127.0.0.1:5080>
            Identity: r5mwreLuyDRYBi/0TiPwEsY3rEVsk/G2WxhgTV1PF7hHuLIK0YWVKZhKv9Mj8UeXqkMVbnVq37CD+813gvYjcBUaZngQmXc9WNZS\
            DNGCzA+fWl9MEUHWIZo1CeJebdY/XlgKeTa0Olvq0rt70Q5jiSfbqMJmQFteeivUhkMWYUA=
            Contact: <sip:fluffy@127.0.0.1:5070>
            To: <sip:kumiko@example.org>
            From: <sip:fluffy@example.com>;tag=2fb0dcc9
            Call-ID: 3d9485ad0c49859b@Zmx1ZmZ5LW1hYy0xNi5sb2NhbA..
            CSeq: 1 MESSAGE
            Content-Transfer-Encoding: binary
            Content-Type: multipart/mixed;boundary=\(boundary)
            Date: Sat, 15 Oct 2005 04:44:56 GMT
            User-Agent: SIPimp.org/0.2.5 (curses)
            Content-Length: \(body.count)
            """, body: body)
    }()
}
