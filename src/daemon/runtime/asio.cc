// The non-template functions of Asio (BOOST_ASIO_SEPARATE_COMPILATION in CMakeLists.txt).
#include <boost/asio/impl/src.hpp>
