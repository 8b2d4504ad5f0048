import PushDelivery
import Settings
import Testing

@Suite("The setting proxy")
struct PushProxySettingsTests {
    private func settings(_ yaml: String) throws(SettingsError) -> PushSettings {
        try PushSettings(yaml: Array(yaml.utf8), file: "push.yaml")
    }

    @Test(
        arguments: [
            ("http://proxy.example.net:3128", "proxy.example.net", 3128, nil, nil),
            ("http://192.0.2.1:8080/", "192.0.2.1", 8080, nil, nil),
            ("http://[2001:db8::1]:3128", "2001:db8::1", 3128, nil, nil),
            ("http://u:p@proxy.example.net:1", "proxy.example.net", 1, "u", "p"),
            ("http://u@proxy.example.net:1", "proxy.example.net", 1, "u", ""),
            ("http://a%40b:c%3ad%25@h:1", "h", 1, "a@b", "c:d%"), ("http://u:p@x@h:1", "h", 1, "u", "p@x"),
        ] as [(String, String, UInt16, String?, String?)])
    func `a URL is read`(url: String, host: String, port: UInt16, user: String?, password: String?) throws {
        let address = try PushProxy.Address(url)
        #expect(address.host == host && address.port == port)
        #expect(address.user?.reveal() == user && address.password?.reveal() == password)
    }

    @Test(arguments: [
        "proxy.example.net:3128", "https://u:hidden@h:1", "http://u:hidden@h", "http://u:hidden@h:0",
        "http://u:hidden@h:70000", "http://:hidden@h:1", "http://u:hidden%@h:1", "http://u:hidden%0a@h:1",
        "http://u%3ax:hidden@h:1", "http://u:hidden@h:1/path", "http://u:hidden@:1", "http://u:hidden@h?x:1",
        "socks5://u:hidden@h:1", "hidden", "http://u:hidden@h h:1",
    ])
    func `anything else is refused, and no error quotes it`(url: String) throws {
        let error = #expect(throws: SettingsError.self) { try settings("proxy: \"\(url)\"") }
        let words = try #require(error).description
        #expect(words.contains("push.yaml:1:") && words.contains("proxy: expected"), "\(words)")
        #expect(!words.contains("hidden"), "\(words)")
    }

    @Test(arguments: [
        ("https://h:1", "the proxy itself is reached without TLS"), ("socks5://h:1", "a SOCKS proxy cannot be used"),
        ("socks4a://h:1", "a SOCKS proxy cannot be used"), ("h:1", "http://host:port"),
    ])
    func `the sentence says which proxy is possible`(url: String, words: String) throws {
        let error = #expect(throws: SettingsError.self) { try settings("proxy: \"\(url)\"") }
        #expect(try #require(error).description.contains(words))
    }

    @Test func `each provider may have its own or none`() throws {
        let push = try settings(
            """
            proxy: http://u:hidden@general:1
            apns: {proxy: "http://apple:2", apps: {second: {topics: [a]}, third: {topics: [b], proxy: none}}}
            fcm: {proxy: none}
            """)
        func host(_ own: PushProxy?) -> String? { PushProxy.chosen(own, else: push.proxy)?.host }
        #expect(host(push.apns.proxy) == "apple")
        #expect(host(push.apns.apps["second"]?.proxy) == "apple")
        #expect(host(push.apns.apps["third"]?.proxy) == nil)
        #expect(host(push.fcm.proxy) == nil)
        #expect(host(push.webPush.proxy) == "general")
        var text = ""
        dump(push, to: &text)
        #expect(!text.contains("hidden") && !"\(push)".contains("hidden"))
    }
}
