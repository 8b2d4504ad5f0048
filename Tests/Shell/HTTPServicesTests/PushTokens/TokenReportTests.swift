import Bytes
import HTTPSemantics
import HTTPServer
import PushDelivery
import Testing

@testable import HTTPServices

/// Tests that the daemon reads the same report from a query, a form, a JSON body or a path.
@Suite("Reading reports of tokens")
struct TokenReportTests {
    private static let selector = "12869E0E6E553673C54F29105A0647204C416A2A:7C3A0D14"
    /// A token with all characters that must be escaped in a URL.
    private static let token = "ab+/cd=="

    /// Each name in the specification, with an example value and the member that gets the value.
    private static let names: [(name: String, value: String, read: any KeyPath<ReportedTokens, String?> & Sendable)] = [
        ("selector", selector, \.selectorText), ("SELECTOR", selector, \.selectorText),
        ("token_calls", token, \.callsToken), ("pushTokenIncomingCall", token, \.callsToken),
        ("pushtokenincomingcall", token, \.callsToken), ("TOKEN_CALLS", token, \.callsToken),
        ("appid_calls", "com.a.voip", \.callsApp), ("appId_calls", "com.a.voip", \.callsApp),
        ("pushappid_incoming_call", "com.a.voip", \.callsApp), ("PUSHAPPID_INCOMING_CALL", "com.a.voip", \.callsApp),
        ("token_msgs", token, \.otherToken), ("pushTokenOther", token, \.otherToken),
        ("pushToken", token, \.otherToken), ("token", token, \.otherToken), ("Token_Msgs", token, \.otherToken),
        ("appid_msgs", "com.a", \.otherApp), ("appId_msgs", "com.a", \.otherApp),
        ("pushappid_other", "com.a", \.otherApp), ("pushappid", "com.a", \.otherApp), ("appid", "com.a", \.otherApp),
        ("AppID_msgs", "com.a", \.otherApp),
    ]

    private static func encoded(_ text: String) -> String {
        text.replacing("%", with: "%25").replacing("+", with: "%2B").replacing("/", with: "%2F")
            .replacing("=", with: "%3D").replacing(":", with: "%3A")
    }

    private func read(
        _ target: String = "/token", _ body: String? = nil, type: String? = nil, path: [String] = []
    ) throws -> TokenReport {
        try TokenReport(
            HTTPRequest(
                method: body == nil ? "GET" : "POST", target: target,
                fields: type.map { [HTTPField("Content-Type", $0)] } ?? [], body: Array((body ?? "").utf8)), path)
    }

    @Test(arguments: names.indices)
    func `every name is read in query, path, form and JSON`(index: Int) throws {
        let (name, value, key) = Self.names[index]
        for written in [value, Self.encoded(value)] {
            #expect(try read("/token?\(name)=\(written)").tokens(.acrobits)[keyPath: key] == value)
            for type in [nil, "application/x-www-form-urlencoded", "text/plain", "text/plain; charset=utf-8"] {
                #expect(try read("/token", "\(name)=\(written)", type: type).tokens(.acrobits)[keyPath: key] == value)
            }
        }
        for type in [nil, "application/json", "application/json;charset=UTF-8", "APPLICATION/JSON ; x=y", "text/plain"]
        {
            let report = try read("/token", "\r\n {\"\(name)\":\"\(value)\"}", type: type)
            #expect(report.tokens(.acrobits)[keyPath: key] == value)
        }
        // A token in the path can be followed by parameters, and is then the `otherToken` of the report.
        if key != \.otherToken {
            let report = try read(path: ["u", Self.selector, "T0&\(name)=\(value)"])
            #expect(report.tokens(.acrobits)[keyPath: key] == value)
            #expect(report.tokens(.acrobits).otherToken == "T0")
        }
    }

    @Test(arguments: [
        ("token_msgs=ab+/cd==", "ab+/cd=="), ("token_msgs=ab%2B%2Fcd%3D%3D", "ab+/cd=="),
        ("token_msgs=ab%2b%2fcd", "ab+/cd"), ("token_msgs=ab%20/cd", "ab+/cd"), ("token_msgs=ab-_cd", "ab-_cd"),
        ("token_msgs=++++", "++++"),
    ])
    func `a plus sign is kept in each encoding`(form: String, token: String) throws {
        #expect(try read("/token?\(form)").tokens(.acrobits).otherToken == token)
        #expect(try read("/token", form).tokens(.acrobits).otherToken == token)
        #expect(
            try read("/token", "{\"token_msgs\":\"\(token)\"}", type: "application/json").tokens(.acrobits).otherToken
                == token)
        #expect(try read(path: ["u", "S", token]).tokens(.acrobits).otherToken == token)
    }

    @Test(arguments: ["null", "(null)", "NULL", "(Null)", ""])
    func `a null counts as missing, at any place`(null: String) throws {
        let names = Self.names.map(\.name)
        let all = names.map { "\($0)=\(null)" }.joined(separator: "&")
        for report in [
            try read("/token?\(all)"), try read("/token", all),
            try read(
                "/token", "{" + names.map { "\"\($0)\":\"\(null)\"" }.joined(separator: ",") + "}",
                type: "application/json"),
            try read("/token", "{" + names.map { "\"\($0)\":null" }.joined(separator: ",") + "}"),
            try read(path: ["u", null, "\(null)&appid=\(null)"]),
        ] {
            let tokens = report.tokens(.acrobits)
            #expect(tokens.isEmpty && tokens.selector.isEmpty && tokens.callsApp == nil && tokens.otherApp == nil)
        }
    }

    @Test(
        arguments: [
            ("username=100", "100", nil), ("username=100@example.net", "100", "example.net"),
            ("username=sip:100@example.net", "100", "example.net"), ("username=SIPS:100@b.org", "100", "b.org"),
            ("username=a@b@example.net", "a@b", "example.net"), ("username=null", "null", nil),
            // The user names are numbers in the international format, the second with a plus sign that was not encoded.
            ("username=%2B4930123", "+4930123", nil), ("username=+4930123", "+4930123", nil),
            ("username=+4930123@example.net", "+4930123", "example.net"),
            ("username=sip:+4930123@example.net", "+4930123", "example.net"),
            ("username=sip%3A%2B4930123", "+4930123", nil), ("UserName=j%C3%BCrgen", "jürgen", nil),
        ] as [(String, String, String?)])
    func `users are named in any form`(form: String, user: String, domain: String?) throws {
        for report in [try read("/token?\(form)"), try read("/token", form)] {
            let account = try report.account()
            #expect(account.user == ByteString(user) && account.domain == domain.map { ByteString($0) })
        }
        let name = domain.map { "\(user)@\($0)" } ?? user
        for report in [
            try read(path: [name]), try read("/token", "{\"username\":\"\(name)\"}"),
            try read("/token", "{\"username\":\"sip:\(name)\"}", path: ["sip:\(name)"]),
        ] {
            let account = try report.account()
            #expect(account.user == ByteString(user) && account.domain == domain.map { ByteString($0) })
        }
    }

    @Test(arguments: [
        "password=a%2Bb%20c", "password=a%2Bb+c", "PASSWORD=a%2bb%20c",
    ])
    func `a password is decoded as in forms, and not corrected`(form: String) throws {
        #expect(try read("/token?\(form)").password == ByteString("a+b c"))
        #expect(try read("/token", form).password == ByteString("a+b c"))
        #expect(try read("/token", "{\"password\":\"a+b c\"}").password == ByteString("a+b c"))
        #expect(try read("/token", "{\"password\":\"null\"}").password == ByteString("null"))
        #expect(try read("/token", "{\"password\":null}").password == nil)
        #expect(try read("/token?password=").password == nil)
    }

    @Test func `a body with GET is ignored`() throws {
        let request = HTTPRequest(method: "GET", target: "/token", body: Array("token_msgs=T".utf8))
        #expect(try TokenReport(request, []).tokens(.acrobits).isEmpty)
    }
}

extension ReportedTokens {
    fileprivate var selectorText: String? { selector.isEmpty ? nil : selector.string }
    fileprivate var callsToken: String? { calls.token?.string }
    fileprivate var callsApp: String? { calls.appID?.string }
    fileprivate var otherToken: String? { other.token?.string }
    fileprivate var otherApp: String? { other.appID?.string }
}
