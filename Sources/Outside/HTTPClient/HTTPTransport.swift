package import Reactor

/// Carries the requests of one group. One transport uses HTTP/2 by nghttp2, another one HTTP/1.1 by libcurl.
///
/// It knows servers and connections. The layer above knows the callers, their time limits and their number.
package protocol HTTPTransport: AnyObject {
    init(on loop: EventLoop, limits: HTTPSession.Limits, names: HostNames) throws(HTTPClientError)

    /// Accepts the request, or leaves it to the next transport. ``HTTPExchange/finish(_:)`` reports the result, not
    /// from within this call.
    func send(_ exchange: HTTPExchange) throws(HTTPClientError) -> Bool

    /// Drops the request, because its answer is not needed any more.
    func takeBack(_ exchange: HTTPExchange)

    /// Keeps a connection for requests like this one, from now on.
    func keepWarm(_ request: HTTPClientRequest)

    /// Closes all connections, for good.
    ///
    /// - Returns: the active requests.
    func close() -> [HTTPExchange]
}
