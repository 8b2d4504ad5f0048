import HTTPSemantics
import HTTPServer
import Testing

@Suite("HTTP request target")
struct HTTPRequestTests {
    @Test(arguments: [
        ("/", []), ("", []), ("*", []), ("/a", ["a"]), ("/a/", ["a", ""]), ("//a", ["", "a"]),
        ("/a/../b", ["a", "..", "b"]),
        ("/a%2fb", ["a/b"]), ("/%2e%2E", [".."]), ("/a%", ["a%"]), ("/a%4", ["a%4"]), ("/%zz", ["%zz"]),
        ("/a+b", ["a+b"]),
        ("/a?b/c", ["a"]), ("/a#b", ["a"]), ("http://host:80/a/b", ["a", "b"]), ("http://host", []),
        ("http://host?x", []),
        ("/%ff", ["\u{fffd}"]), ("/%c3%a9", ["\u{e9}"]),
    ])
    func `paths are split first and decoded then`(target: String, path: [String]) {
        #expect(HTTPRequest(method: "GET", target: target).path == path)
    }

    @Test func `queries are decoded in their order`() {
        let request = HTTPRequest(method: "GET", target: "/?a=1&b=x%3Dy=z&&c&a=2&%61+=%2B+?")
        #expect(
            request.query == [
                HTTPField("a", "1"), HTTPField("b", "x=y=z"), HTTPField("c", ""), HTTPField("a", "2"),
                HTTPField("a ", "+ ?"),
            ])
        #expect(request.query("a") == "1")
        #expect(request.query("d") == nil)
    }

    @Test func `header fields are found in any case`() {
        let request = HTTPRequest(
            method: "GET", target: "/", fields: [HTTPField("Content-TYPE", "a"), HTTPField("b", "c")])
        #expect(request.field("content-type") == "a")
        #expect(request.field("B") == "c")
        #expect(request.field("d") == nil)
    }

    @Test(arguments: [
        ("application/json", "application/json"), ("Application/JSON; charset=utf-8", "application/json"),
        ("text/plain ;x=y", "text/plain"), (";", ""), ("", ""),
    ])
    func `the media type is in lower case and without parameters`(value: String, type: String) {
        let request = HTTPRequest(method: "POST", target: "/", fields: [HTTPField("content-type", value)])
        #expect(request.mediaType == type)
        #expect(HTTPRequest(method: "POST", target: "/").mediaType == "")
    }
}
