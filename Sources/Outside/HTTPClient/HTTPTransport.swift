package import Reactor

/// A transport sends the requests of one group over one version of HTTP. There are two transports: HTTP/2 by nghttp2,
/// and HTTP/1.1 by libcurl.
///
/// A transport manages the HTTP connections to servers. The session manages completions, time limits and the number of
/// requests.
package protocol HTTPTransport: AnyObject {
    init(on loop: EventLoop, limits: HTTPSession.Limits, names: HostNames) throws(HTTPClientError)

    /// Sends the request. If the transport cannot send the request, ``send(_:)`` returns false, and the group's next
    /// transport must send the request. When the request has ended, the transport calls ``HTTPExchange/finish(_:)``,
    /// but never before `send` has returned.
    func send(_ exchange: HTTPExchange) throws(HTTPClientError) -> Bool

    /// Cancels the request, because its response is not needed any more.
    func takeBack(_ exchange: HTTPExchange)

    /// The error of a request that reached its deadline while it waited for a proxy; `nil` if the request waited for
    /// the server.
    func delay(of exchange: HTTPExchange) -> HTTPClientError?

    /// Opens a connection for later requests like the given request, and keeps the connection open.
    func keepWarm(_ request: HTTPClientRequest)

    /// Closes all connections, and accepts no more requests.
    ///
    /// - Returns: the HTTP requests that were active.
    func close() -> [HTTPExchange]
}
