package import Reactor

/// A transport sends the requests of one group over one version of HTTP, and manages the connections. The transports
/// are HTTP/2 by nghttp2, and HTTP/1.1 by libcurl.
///
/// The session manages completions, time limits and the number of requests.
package protocol HTTPTransport: AnyObject {
    init(on loop: EventLoop, limits: HTTPSession.Limits, names: HostNames) throws(HTTPClientError)

    /// Sends the request. The function returns false if the group's next transport must send the request. At the
    /// request's end, the transport calls ``HTTPExchange/finish(_:)``, but never before `send` has returned.
    func send(_ exchange: HTTPExchange) throws(HTTPClientError) -> Bool

    /// Cancels the request.
    func takeBack(_ exchange: HTTPExchange)

    /// The error of a request whose time limit passed while it waited for a proxy; `nil` for another error.
    func delay(of exchange: HTTPExchange) -> HTTPClientError?

    /// Opens a connection for later requests like the given one, and keeps it open.
    func keepWarm(_ request: HTTPClientRequest)

    /// Closes all connections, and accepts no more requests.
    ///
    /// - Returns: the requests that were active.
    func close() -> [HTTPExchange]
}
