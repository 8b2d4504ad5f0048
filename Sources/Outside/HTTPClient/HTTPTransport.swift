package import Reactor

/// A transport sends the requests of one group over one version of HTTP. There are two transports: HTTP/2 by nghttp2,
/// and HTTP/1.1 by libcurl.
///
/// A transport manages the connections to servers. The session manages completions, time limits and the number of
/// requests.
package protocol HTTPTransport: AnyObject {
    init(on loop: EventLoop, limits: HTTPSession.Limits, names: HostNames) throws(HTTPClientError)

    /// Sends the request. The result is false if this transport cannot send it, so that the group's next transport must
    /// send it. When the request has ended, the transport calls ``HTTPExchange/finish(_:)``, but never before `send`
    /// has returned.
    func send(_ exchange: HTTPExchange) throws(HTTPClientError) -> Bool

    /// Cancels the request, because its response is not needed any more.
    func takeBack(_ exchange: HTTPExchange)

    /// The error of a request that reached its deadline while it waited for a proxy; `nil` if it waited for the server.
    func delay(of exchange: HTTPExchange) -> HTTPClientError?

    /// Opens a connection for later requests like the given one, and keeps it open.
    func keepWarm(_ request: HTTPClientRequest)

    /// Closes all connections and accepts no more requests.
    ///
    /// - Returns: the requests that were active.
    func close() -> [HTTPExchange]
}
