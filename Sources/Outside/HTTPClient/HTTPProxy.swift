import Bytes
package import Reactor

/// An HTTP proxy that opens tunnels to servers (CONNECT, RFC 9110 section 9.3.6), and resolves their names.
package struct HTTPProxy: Hashable, Sendable {
    package struct Login: Hashable, Sendable {
        package let user: String
        package let password: String

        package init(user: String, password: String) {
            self.user = user
            self.password = password
        }
    }

    /// The proxy's host: a name, or an address without brackets.
    package let host: String
    package let port: UInt16
    package let login: Login?

    package init(host: String, port: UInt16, login: Login? = nil) {
        self.host = host
        self.port = port
        self.login = login
    }

    /// The URL of the proxy, without user name and password.
    package var url: String { "http://\(self)" }

    /// The host and port to which the client connects.
    package var target: RequestTarget? { RequestTarget(url) }

    /// Makes the CONNECT request that asks the proxy for a tunnel to a server.
    package func tunnel(to server: RequestTarget) -> StreamTunnel {
        var text = "CONNECT \(server.server) HTTP/1.1\r\nHost: \(server.server)\r\n"
        if let login {
            let pair = Array("\(login.user):\(login.password)".utf8)
            text += "Proxy-Authorization: Basic \(String(decoding: Base64.standard.encode(pair), as: UTF8.self))\r\n"
        }
        text += "\r\n"
        return StreamTunnel(
            request: Array(text.utf8), longestAnswer: HTTPClientResponse.headLimit, judge: Self.judge)
    }

    /// Reads the proxy's answer to CONNECT: a status line and header fields, up to the first empty line.
    private static func judge(_ bytes: [UInt8]) -> StreamTunnel.Judgement {
        let start = Array("HTTP/1.".utf8)
        guard bytes.starts(with: start.prefix(bytes.count)) else { return .garbled }
        guard let end = endOfHead(bytes) else { return .incomplete }
        let line = bytes.prefix { $0 != UInt8(ascii: "\r") && $0 != UInt8(ascii: "\n") }
        let words = line.split(separator: UInt8(ascii: " "), maxSplits: 2)
        guard words.count >= 2, words[1].count == 3, let status = Int(String(decoding: words[1], as: UTF8.self)),
            (100...599).contains(status)
        else { return .garbled }
        return (200...299).contains(status) ? .open(length: end) : .refused(status: status)
    }

    private static func endOfHead(_ bytes: [UInt8]) -> Int? {
        let bytes = bytes.span
        var isLineEmpty = false
        for index in bytes.indices {
            switch bytes[index] {
            case UInt8(ascii: "\n"):
                if isLineEmpty { return index + 1 }
                isLineEmpty = true
            case UInt8(ascii: "\r"): break
            default: isLineEmpty = false
            }
        }
        return nil
    }
}

/// Describes the proxy without its user name and password, for logs and errors.
extension HTTPProxy: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

extension HTTPProxy.Login: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "(secret)" }
    package var debugDescription: String { "(secret)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

// MARK: Errors

extension HTTPProxy {
    /// Why a proxy cannot be used for a request.
    package enum Fault: Hashable, Sendable {
        case unresolved(String)
        case tunnel(StreamTunnel.Failure)
    }

    /// Makes the error of a request that failed at the proxy, with a hint how to solve the problem.
    package func error(_ fault: Fault) -> HTTPClientError {
        switch fault {
        case .unresolved(let why):
            HTTPClientError(
                .proxy, detail: "the name of the proxy \(self) cannot be resolved (\(why)): check the setting proxy")
        case .tunnel(.refused(let status)): refusal(status)
        case .tunnel(let failure): HTTPClientError(.proxy, detail: "the proxy \(self) \(Self.words(failure))")
        }
    }

    private static func words(_ failure: StreamTunnel.Failure) -> String {
        switch failure {
        case .unreachable(let error):
            "cannot be reached (\(error.reason)): check the setting proxy, and whether the proxy runs"
        case .silent: "does not answer in time: check whether it works, and whether it allows CONNECT from here"
        case .closed: "closes the connection without an answer: check whether it allows CONNECT from here"
        case .garbled: "does not answer in HTTP: check whether the setting proxy names an HTTP proxy"
        case .tooLong: "answers with a head of more than \(HTTPClientResponse.headLimit >> 10) KiB: check the proxy"
        case .refused(let status): "answers \(status)"
        }
    }

    private func refusal(_ status: Int) -> HTTPClientError {
        switch status {
        case 407:
            HTTPClientError(
                .proxyRefused,
                detail: "the proxy \(self) refuses \(login == nil ? "requests without a login" : "our login") (407): "
                    + "check user and password in the setting proxy")
        case 400..<500 where status != 408 && status != 429:
            HTTPClientError(
                .proxyRefused, detail: "the proxy \(self) forbids this server (\(status)): allow CONNECT to it there")
        case 500..<600:
            HTTPClientError(
                .proxy, detail: "the proxy \(self) cannot reach this server (\(status)): look at the proxy's log")
        default: HTTPClientError(.proxy, detail: "the proxy \(self) answers \(status) to CONNECT: check the proxy")
        }
    }
}
